//! Prints the row that gimli has for an address: `cfa=r7+64 3=c-16 16=c-8`, or the error.

use gimli::{
    BaseAddresses, CfaRule, EhFrame, LittleEndian, RegisterRule, UnwindContext, UnwindSection, Vendor,
};

/// Takes the offset and the size of the section in the file, its address in memory, the address and the machine.
pub fn run(words: &[String]) -> Result<String, String> {
    let numbers: Vec<u64> = words[1..5].iter().map(|word| word.parse().expect("a decimal number")).collect();
    let file = std::fs::read(&words[0]).expect("a file");
    let bytes = &file[numbers[0] as usize..][..numbers[1] as usize];
    let vendor = if words[5] == "aarch64" { Vendor::AArch64 } else { Vendor::Default };
    row(bytes, vendor, numbers[2], numbers[3]).map_err(|error| format!("{error:?}"))
}

/// Returns the row as gimli's search of the whole section finds it.
fn row(bytes: &[u8], vendor: Vendor, address: u64, pc: u64) -> gimli::Result<String> {
    let mut section = EhFrame::new(bytes, LittleEndian);
    section.set_address_size(8);
    section.set_vendor(vendor);
    let bases = BaseAddresses::default().set_eh_frame(address);
    let mut context = UnwindContext::new();
    let row = section.unwind_info_for_address(&bases, &mut context, pc, EhFrame::cie_from_offset)?;
    let cfa = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => format!("r{}{offset:+}", register.0),
        CfaRule::Expression(_) => "exp".to_owned(),
    };
    let rules = row.registers().map(|(register, rule)| format!(" {}={}", register.0, shown(rule)));
    Ok(format!("cfa={cfa}{}", rules.collect::<String>()))
}

/// Returns a rule in the form of the table's program.
fn shown(rule: &RegisterRule<usize>) -> String {
    match rule {
        RegisterRule::Undefined => "u".to_owned(),
        RegisterRule::SameValue => "s".to_owned(),
        RegisterRule::Offset(offset) => format!("c{offset:+}"),
        RegisterRule::ValOffset(offset) => format!("v{offset:+}"),
        RegisterRule::Register(register) => format!("r{}", register.0),
        RegisterRule::Expression(_) => "exp".to_owned(),
        RegisterRule::ValExpression(_) => "vexp".to_owned(),
        other => format!("{other:?}"),
    }
}
