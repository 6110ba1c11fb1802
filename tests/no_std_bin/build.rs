//! Links the C start-up code and library, which call `main`, and nothing of
//! Rust's own runtime.

fn main() {
    println!("cargo::rustc-link-arg-bins=-lc");
}
