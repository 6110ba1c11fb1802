//! The name of a device, kept in the error or value that carries it.

use core::fmt;

use arrayvec::ArrayString;

/// A device's name, such as `mlx5_0` or `rxe0`.
///
/// It holds 31 bytes, which every name that a distribution gives fits; a longer
/// one is cut.
///
/// ```
/// use farword::verbs::DeviceName;
/// assert_eq!(DeviceName::from("rxe0").as_str(), "rxe0");
/// assert_eq!(DeviceName::from("rxe0").to_string(), "rxe0");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeviceName(ArrayString<31>);

impl DeviceName {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for DeviceName {
    fn from(name: &str) -> Self {
        let mut kept = ArrayString::new();
        for letter in name.chars() {
            if kept.try_push(letter).is_err() {
                break;
            }
        }
        DeviceName(kept)
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceName({})", self.0)
    }
}
