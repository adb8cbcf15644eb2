//! The mutants of a source file: the places, and the text that switches them.

use std::ops::Range;

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{BinOp, Block, Expr, ReturnType, Signature, Stmt, Type};

/// Marks in texts that are put around a range: the mutant's switch, and its number.
const ON: char = '\u{1}';
const NUMBER: char = '\u{2}';

/// A change of the program that a test should detect.
pub struct Mutant {
    /// The number by which it is switched on, from 1.
    pub number: u32,
    pub line: usize,
    /// The change in words, with the text that it changes.
    pub words: String,
}

/// The text of a file with its mutants.
pub struct Mutated {
    pub text: String,
    pub mutants: Vec<Mutant>,
}

/// Text around a range of the source, or at a place if the range is empty.
struct Around {
    range: Range<usize>,
    before: String,
    after: String,
}

struct Finder<'s> {
    source: &'s str,
    next: u32,
    /// Numbers of mutants that do not compile.
    dropped: &'s dyn Fn(u32) -> bool,
    around: Vec<Around>,
    mutants: Vec<Mutant>,
}

/// Finds the mutants of a file, numbered from `first` on, without those that are `dropped`.
pub fn mutate(source: &str, first: u32, dropped: &dyn Fn(u32) -> bool) -> syn::Result<(Mutated, u32)> {
    let file = syn::parse_file(source)?;
    let mut finder = Finder { source, next: first, dropped, around: Vec::new(), mutants: Vec::new() };
    finder.visit_file(&file);
    let text = finder.text();
    Ok((Mutated { text, mutants: finder.mutants }, finder.next))
}

impl Finder<'_> {
    /// Wraps a range, by texts that are made of the mutant's switch.
    fn wrap(&mut self, span: Span, words: &str, before: &str, after: &str) {
        let number = self.next;
        self.next += 1;
        if (self.dropped)(number) {
            return;
        }
        let range = span.byte_range();
        let switch = format!("crate::mutant_switch::on({number})");
        let fill = |text: &str| text.replace(ON, &switch).replace(NUMBER, &number.to_string());
        let what: String = self.source[range.clone()].split_whitespace().collect::<Vec<_>>().join(" ");
        let what: String = what.chars().take(70).collect();
        self.mutants.push(Mutant { number, line: span.start().line, words: format!("{words} `{what}`") });
        self.around.push(Around { range, before: fill(before), after: fill(after) });
    }

    /// Inserts a result at the start of a function's body.
    fn result(&mut self, signature: &Signature, block: &Block, value: &str) {
        let number = self.next;
        self.next += 1;
        if (self.dropped)(number) {
            return;
        }
        let at = block.brace_token.span.open().byte_range().end;
        let line = signature.ident.span().start().line;
        let words =
            format!("`{}` only returns {}", signature.ident, if value.is_empty() { "()" } else { value });
        self.mutants.push(Mutant { number, line, words });
        let before = format!(" if crate::mutant_switch::on({number}) {{ return {value}; }}");
        self.around.push(Around { range: at..at, before, after: String::new() });
    }

    fn function(&mut self, signature: &Signature, block: &Block) {
        if signature.constness.is_some() {
            return;
        }
        if !block.stmts.is_empty() {
            for value in results(&signature.output) {
                self.result(signature, block, value);
            }
        }
        self.visit_block(block);
    }

    /// The file's text with everything that was put around ranges.
    fn text(&self) -> String {
        let mut inserts = Vec::new();
        for (number, around) in self.around.iter().enumerate() {
            let (Range { start, end }, order) = (around.range.clone(), number as isize);
            let length = (end - start) as isize;
            // At one place ends come before starts, of ends the shorter range's first, of starts the longer range's.
            inserts.push((start, 1, -length, order, around.before.as_str()));
            inserts.push((end, if length == 0 { 1 } else { 0 }, length, -order, around.after.as_str()));
        }
        inserts.sort();
        let mut text = String::with_capacity(self.source.len() * 2);
        let mut at = 0;
        for (place, .., insert) in inserts {
            text.push_str(&self.source[at..place]);
            text.push_str(insert);
            at = place;
        }
        text.push_str(&self.source[at..]);
        text
    }
}

/// The values that mutants of a function return at once.
fn results(output: &ReturnType) -> &'static [&'static str] {
    let ReturnType::Type(_, output) = output else { return &[""] };
    let Type::Path(path) = &**output else { return &[] };
    let Some(last) = path.path.segments.last() else { return &[] };
    match last.ident.to_string().as_str() {
        "bool" => &["true", "false"],
        "Option" => &["None"],
        "u8" | "u16" | "u32" | "u64" | "usize" | "i8" | "i16" | "i32" | "i64" | "isize" => &["0"],
        "Vec" | "String" => &["Default::default()"],
        "Result" => match &last.arguments {
            syn::PathArguments::AngleBracketed(arguments) => match arguments.args.first() {
                Some(syn::GenericArgument::Type(Type::Tuple(tuple))) if tuple.elems.is_empty() => &["Ok(())"],
                _ => &[],
            },
            _ => &[],
        },
        _ => &[],
    }
}

/// Returns whether an expression can be repeated: it has no effect and moves nothing.
fn is_simple(expr: &Expr) -> bool {
    match expr {
        Expr::Path(_) | Expr::Lit(_) => true,
        Expr::Field(field) => is_simple(&field.base),
        Expr::Paren(paren) => is_simple(&paren.expr),
        Expr::Unary(unary) => is_simple(&unary.expr),
        Expr::MethodCall(call) => call.method == "len" && is_simple(&call.receiver),
        _ => false,
    }
}

/// Returns whether a condition binds names, so that it cannot be put into parentheses.
fn binds(expr: &Expr) -> bool {
    match expr {
        Expr::Let(_) => true,
        Expr::Binary(binary) => binds(&binary.left) || binds(&binary.right),
        _ => false,
    }
}

fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg")
                && attribute.meta.require_list().is_ok_and(|list| list.tokens.to_string().starts_with("test"))
    })
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        match item {
            // Values of constants are the compiler's to find.
            syn::Item::Const(_) | syn::Item::Static(_) | syn::Item::Macro(_) | syn::Item::Enum(_) => {}
            syn::Item::Mod(module) if is_for_tests(&module.attrs) => {}
            syn::Item::Fn(function) if is_for_tests(&function.attrs) => {}
            syn::Item::Fn(function) => self.function(&function.sig, &function.block),
            // What `{:?}` prints is for people who debug.
            syn::Item::Impl(imp)
                if imp.trait_.as_ref().is_some_and(|(_, path, _)| {
                    path.segments.last().is_some_and(|last| last.ident == "Debug")
                }) => {}
            item => visit::visit_item(self, item),
        }
    }

    fn visit_impl_item(&mut self, item: &'ast syn::ImplItem) {
        match item {
            syn::ImplItem::Fn(function) if !is_for_tests(&function.attrs) => {
                self.function(&function.sig, &function.block);
            }
            _ => {}
        }
    }

    fn visit_trait_item(&mut self, item: &'ast syn::TraitItem) {
        if let syn::TraitItem::Fn(function) = item
            && let Some(block) = &function.default
        {
            self.function(&function.sig, block);
        }
    }

    fn visit_stmt(&mut self, statement: &'ast Stmt) {
        if let Stmt::Expr(expr, Some(_)) = statement {
            let is_left_out = match expr {
                Expr::MethodCall(_) | Expr::Call(_) | Expr::Assign(_) => true,
                Expr::Try(inner) => matches!(&*inner.expr, Expr::MethodCall(_) | Expr::Call(_)),
                Expr::Binary(binary) => is_assignment(&binary.op),
                _ => false,
            };
            if is_left_out {
                self.wrap(statement.span(), "leaves out", "if !\u{1} { ", " }");
            }
        }
        if let Stmt::Macro(_) = statement {
            return;
        }
        visit::visit_stmt(self, statement);
    }

    fn visit_expr_if(&mut self, expr: &'ast syn::ExprIf) {
        self.condition(&expr.cond);
        visit::visit_expr_if(self, expr);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if let Some((_, guard)) = &arm.guard {
            self.condition(guard);
            self.visit_expr(guard);
        }
        self.visit_expr(&arm.body);
    }

    fn visit_expr_binary(&mut self, expr: &'ast syn::ExprBinary) {
        match expr.op {
            BinOp::Eq(_) | BinOp::Ne(_) => self.wrap(expr.span(), "negates", "((", ") ^ \u{1})"),
            BinOp::Lt(_) | BinOp::Le(_) | BinOp::Gt(_) | BinOp::Ge(_) => {
                self.wrap(expr.span(), "negates", "((", ") ^ \u{1})");
                self.boundary(expr);
            }
            BinOp::And(_) if !binds(&expr.left) && !binds(&expr.right) => {
                self.wrap(expr.left.span(), "takes for true", "(\u{1} || (", "))");
                self.wrap(expr.right.span(), "takes for true", "(\u{1} || (", "))");
            }
            BinOp::Or(_) => {
                self.wrap(expr.left.span(), "takes for false", "(!\u{1} && (", "))");
                self.wrap(expr.right.span(), "takes for false", "(!\u{1} && (", "))");
            }
            BinOp::Add(_)
            | BinOp::Sub(_)
            | BinOp::Mul(_)
            | BinOp::Div(_)
            | BinOp::Shl(_)
            | BinOp::Shr(_)
            | BinOp::BitAnd(_)
            | BinOp::BitOr(_) => {
                let before = "({ #[allow(unused_imports)] use crate::mutant_switch::{Integer as _, Other as _}; \
                              (&crate::mutant_switch::value(";
                self.wrap(expr.span(), "adds 1 to", before, ")).mutated(\u{2}) })");
            }
            _ => {}
        }
        visit::visit_expr_binary(self, expr);
    }

    // Lengths and patterns are constants; closures, blocks and the rest are visited.
    fn visit_expr_repeat(&mut self, expr: &'ast syn::ExprRepeat) {
        self.visit_expr(&expr.expr);
    }

    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_type(&mut self, _: &'ast Type) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
    fn visit_macro(&mut self, _: &'ast syn::Macro) {}
}

impl Finder<'_> {
    /// Negates a condition that is not made of comparisons, which have mutants of their own.
    fn condition(&mut self, condition: &Expr) {
        if !matches!(condition, Expr::Binary(_) | Expr::Let(_) | Expr::Macro(_)) {
            self.wrap(condition.span(), "negates", "((", ") ^ \u{1})");
        }
    }

    /// Moves the border of a comparison by the case of equality.
    fn boundary(&mut self, expr: &syn::ExprBinary) {
        if !is_simple(&expr.left) || !is_simple(&expr.right) {
            return;
        }
        let text = |expr: &Expr| &self.source[expr.span().byte_range()];
        let equal = format!("({}) == ({})", text(&expr.left), text(&expr.right));
        match expr.op {
            BinOp::Lt(_) | BinOp::Gt(_) => {
                self.wrap(expr.span(), "accepts equality in", "((", &format!(") || \u{1} && {equal})"));
            }
            _ => self.wrap(expr.span(), "refuses equality in", "((", &format!(") && !(\u{1} && {equal}))")),
        }
    }
}

const fn is_assignment(op: &BinOp) -> bool {
    matches!(
        op,
        BinOp::AddAssign(_)
            | BinOp::SubAssign(_)
            | BinOp::MulAssign(_)
            | BinOp::DivAssign(_)
            | BinOp::RemAssign(_)
            | BinOp::BitXorAssign(_)
            | BinOp::BitAndAssign(_)
            | BinOp::BitOrAssign(_)
            | BinOp::ShlAssign(_)
            | BinOp::ShrAssign(_)
    )
}
