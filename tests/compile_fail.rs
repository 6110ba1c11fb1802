//! What must not compile, and what the compiler says of it.
//!
//! The messages are those of the pinned toolchain; `TRYBUILD=overwrite cargo test
//! --test compile_fail` renews them, and their change is to be read like code.

#[test]
fn misuse_does_not_compile_and_the_message_says_why() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/compile_fail/control/*.rs");
    cases.compile_fail("tests/compile_fail/*.rs");
}
