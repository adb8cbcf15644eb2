//! Knows in which arm of a condition each place of a source is. Another configuration skips the arm.

use super::lines::SourceLine;
use super::statements::{Preprocessor, preprocessor, word};

/// The arms of the conditions of a source: of the assembler (`.if`), and of the C preprocessor (`#if`).
#[derive(Debug)]
pub struct Conditions {
    assembler: Arms,
    preprocessor: Arms,
}

/// The places after which another arm is current, ascending, and the arm's number. Outside of conditions, it is 0.
type Arms = Vec<(usize, u32)>;

impl Conditions {
    /// Follows the conditions of a source.
    pub fn new(text: &[u8], lines: &[SourceLine]) -> Self {
        let statements = lines.iter().flat_map(|line| &line.statements);
        let marks = statements.filter_map(|statement| match word(&text[statement.clone()]) {
            b".endif" => Some((statement.end, Preprocessor::EndIf)),
            word if word.starts_with(b".else") => Some((statement.end, Preprocessor::Else)),
            word if word.starts_with(b".if") => Some((statement.end, Preprocessor::If)),
            _ => None,
        });
        let assembler = arms(&marks.collect::<Vec<_>>());
        let marks = lines.iter().filter(|line| !line.starts_in_comment).filter_map(|line| {
            let directive = preprocessor(&text[line.range.clone()])?;
            (directive != Preprocessor::Other).then_some((line.range.end, directive))
        });
        Self { assembler, preprocessor: arms(&marks.collect::<Vec<_>>()) }
    }

    /// Returns the numbers of the arms around a place of the text. They are the same for all places in the same arms.
    pub fn at(&self, place: usize) -> (u32, u32) {
        let number = |arms: &Arms| {
            let after = arms.partition_point(|arm| arm.0 <= place);
            after.checked_sub(1).map_or(0, |before| arms[before].1)
        };
        (number(&self.assembler), number(&self.preprocessor))
    }
}

/// Returns the arms that marks divide a text into. A mark without its end is not of a condition, but of a comment.
fn arms(marks: &[(usize, Preprocessor)]) -> Arms {
    let (mut open, mut is_paired) = (Vec::<Vec<usize>>::new(), vec![false; marks.len()]);
    for (index, (_, mark)) in marks.iter().enumerate() {
        match mark {
            Preprocessor::If => open.push(Vec::from([index])),
            Preprocessor::Else => {
                if let Some(condition) = open.last_mut() {
                    condition.push(index);
                }
            }
            Preprocessor::EndIf => {
                if let Some(condition) = open.pop() {
                    is_paired[index] = true;
                    condition.into_iter().for_each(|mark| is_paired[mark] = true);
                }
            }
            Preprocessor::Other => {}
        }
    }
    let (mut around, mut last, mut arms) = (Vec::new(), 0, Vec::new());
    for ((place, mark), _) in marks.iter().zip(is_paired).filter(|mark| mark.1) {
        if *mark != Preprocessor::If {
            around.pop();
        }
        if *mark != Preprocessor::EndIf {
            last += 1;
            around.push(last);
        }
        arms.push((*place, around.last().copied().unwrap_or(0)));
    }
    arms
}

#[cfg(test)]
mod tests {
    use cfipack_format::Arch;

    use super::*;
    use crate::annotate::lines::source_lines;

    /// Each lowercase letter of a text stands for a place. Returns the places that are in the same arms as `a`.
    fn with_a(text: &str) -> String {
        let lines = source_lines(Arch::Amd64, text.as_bytes());
        let conditions = Conditions::new(text.as_bytes(), &lines);
        let places = text.match_indices('\n').map(|(line, _)| line + 1);
        let places = places.filter(|place| text[*place..].starts_with(|one: char| one.is_lowercase()));
        let at = |letter: &str| conditions.at(text.find(&format!("\n{letter}")).unwrap() + 1);
        let all: Vec<_> = places.map(|place| &text[place..=place]).collect();
        all.into_iter().filter(|letter| at(letter) == at("a")).collect()
    }

    #[test]
    fn each_arm_is_another() {
        assert_eq!(with_a("\na:\n.if X\nb:\n.else\nc:\n.endif\nd:\n"), "ad");
        assert_eq!(with_a("\n.ifdef X\na:\n.if Y\nb:\n.endif\nc:\n.elseif Z\nd:\n.endif\ne:\n"), "ac");
        assert_eq!(with_a("\n#if X\na:\n#elif Y\nb:\n# else\nc:\n#endif\nd:\n"), "a");
        assert_eq!(with_a("\n# ifdef X\n.if Y\na:\n#endif\nb:\n.endif\nc:\n"), "a");
    }

    /// On x86, a comment can begin like a condition.
    #[test]
    fn a_condition_has_an_end() {
        assert_eq!(with_a("\na:\n# if rdi is 0\nb:\n# else\nc:\n"), "abc");
        assert_eq!(with_a("\na:\n/* two\n#if 0\n*/\nb:\n#endif\nc:\n"), "abc");
    }
}
