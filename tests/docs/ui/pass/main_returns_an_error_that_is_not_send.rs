use std::error::Error;

#[gort::main]
fn main() -> Result<(), Box<dyn Error>> {
    let number: i32 = "-7".parse()?;
    assert_eq!(number, -7);
    Ok(())
}
