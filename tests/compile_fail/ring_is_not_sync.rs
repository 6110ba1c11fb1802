use farword::Ring;
use farword::soft::InlineQp;

fn shared<T: Sync>() {}

fn main() {
    shared::<Ring<'static, InlineQp<'static>>>();
}
