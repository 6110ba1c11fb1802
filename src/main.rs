//! The `farword` command: what the library does, from a shell.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
