fn main() {
    let _: farword::Notify = 0;
}
