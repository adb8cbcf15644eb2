//! Compiles functions with frames of many shapes. Each calls back, calls the next function, and calls back again.

use std::error::Error;

use cranelift_codegen::ir::{
    AbiParam, InstBuilder, MemFlagsData, StackSlotData, StackSlotKind, Value, types,
};
use cranelift_codegen::isa::unwind::UnwindInfo;
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{FuncId, Linkage, Module, default_libcall_names};
use gimli::write::{Address, EhFrame, EndianVec, FrameTable};

pub const FUNCTIONS: usize = 40;

/// Finalized functions.
pub struct Compiled {
    /// Name, address and bytes of code of each function. Each calls the one before it.
    pub functions: Vec<(String, u64, u64)>,
    /// The `.eh_frame` that gimli writes, with absolute pointers.
    pub eh_frame: Vec<u8>,
    _module: JITModule,
}

impl Compiled {
    /// Where the code lies, and how long it is.
    pub fn extent(&self) -> (u64, u64) {
        let base = self.functions.iter().map(|&(_, start, _)| start).min().unwrap_or(0);
        let end = self.functions.iter().map(|&(_, start, size)| start + size).max().unwrap_or(0);
        (base, end - base)
    }

    /// Returns the number of the function that contains an instruction.
    pub fn number(&self, at: u64) -> Option<usize> {
        self.functions.iter().position(|&(_, start, size)| at.wrapping_sub(start) < size)
    }
}

pub fn compile() -> Result<Compiled, Box<dyn Error>> {
    let mut flags = settings::builder();
    flags.set("opt_level", "speed")?;
    flags.set("preserve_frame_pointers", "false")?;
    let isa = cranelift_native::builder()?.finish(settings::Flags::new(flags))?;
    let mut module = JITModule::new(JITBuilder::with_isa(isa, default_libcall_names()));
    let mut unwind = Vec::new();
    let mut callee = None;
    for number in 0..FUNCTIONS {
        let (id, size, info) = function(&mut module, number, callee)?;
        unwind.push((id, size, info));
        callee = Some(id);
    }
    module.finalize_definitions()?;

    let mut table = FrameTable::default();
    let cie = table.add_cie(module.isa().create_systemv_cie().ok_or("a CIE")?);
    let mut functions = Vec::new();
    for (number, (id, size, info)) in unwind.into_iter().enumerate() {
        let UnwindInfo::SystemV(info) = info else { return Err("no System V unwind information".into()) };
        let start = module.get_finalized_function(id) as u64;
        table.add_fde(cie, info.to_fde(Address::Constant(start)));
        functions.push((format!("function_{number}"), start, size));
    }
    let mut eh_frame = EhFrame(EndianVec::new(gimli::LittleEndian));
    table.write_eh_frame(&mut eh_frame)?;
    Ok(Compiled { functions, eh_frame: eh_frame.0.into_vec(), _module: module })
}

/// Compiles `function_N(callback, argument)`.
fn function(
    module: &mut JITModule,
    number: usize,
    callee: Option<FuncId>,
) -> Result<(FuncId, u64, UnwindInfo), Box<dyn Error>> {
    let mut context = module.make_context();
    let mut builder_context = FunctionBuilderContext::new();
    for _ in 0..2 {
        context.func.signature.params.push(AbiParam::new(types::I64));
    }
    context.func.signature.returns.push(AbiParam::new(types::I64));
    let signature = context.func.signature.clone();
    let id = module.declare_function(&format!("function_{number}"), Linkage::Export, &signature)?;
    let mut callback_signature = module.make_signature();
    callback_signature.params.extend([AbiParam::new(types::I64); 2]);

    let mut b = FunctionBuilder::new(&mut context.func, &mut builder_context);
    let block = b.create_block();
    b.append_block_params_for_function_params(block);
    b.switch_to_block(block);
    b.seal_block(block);
    let &[callback, argument] = b.block_params(block) else { return Err("two parameters".into()) };
    let callback_signature = b.import_signature(callback_signature);
    let number_value = b.ins().iconst(types::I64, number as i64);

    // Values that live across the calls: integers for all saved registers, and some more.
    let slot_size = [0, 8, 200, 5000][number % 4];
    let slot = (slot_size > 0)
        .then(|| b.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, slot_size, 4)));
    let mut live: Vec<Value> = Vec::new();
    for value in 0..number % 9 {
        let offset = b.ins().iadd_imm_s(callback, value as i64 * 3 + 1);
        live.push(b.ins().imul(offset, argument));
    }
    let float = number.is_multiple_of(5).then(|| b.ins().fcvt_from_sint(types::F64, argument));
    if let Some(slot) = slot {
        b.ins().stack_store(types::I64, argument, slot, 0);
    }

    b.ins().call_indirect(callback_signature, callback, &[argument, number_value]);
    let mut sum = match callee {
        Some(callee) => {
            let callee = module.declare_func_in_func(callee, b.func);
            let call = b.ins().call(callee, &[callback, argument]);
            b.inst_results(call)[0]
        }
        None => number_value,
    };
    b.ins().call_indirect(callback_signature, callback, &[argument, number_value]);
    for value in live {
        sum = b.ins().iadd(sum, value);
    }
    if let Some(slot) = slot {
        let stored = b.ins().stack_load(types::I64, types::I64, slot, 0);
        sum = b.ins().bxor(sum, stored);
    }
    if let Some(float) = float {
        let bits = b.ins().bitcast(types::I64, MemFlagsData::new(), float);
        sum = b.ins().iadd(sum, bits);
    }
    b.ins().return_(&[sum]);
    b.finalize(module.isa().frontend_config());

    module.define_function(id, &mut context)?;
    let compiled = context.compiled_code().ok_or("compiled code")?;
    let size = compiled.code_buffer().len() as u64;
    let unwind = compiled.create_unwind_info(module.isa())?.ok_or("unwind information")?;
    Ok((id, size, unwind))
}
