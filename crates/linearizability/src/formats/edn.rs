//! EDN, or nearly all of it, as histories use it. The parser reads one form after another from the start of a window of bytes.
//!
//! A form may reach the end of the window while more bytes may follow ([`Stop::More`]). Then the caller widens the window and
//! parses the form again. Depth is limited, so no file can exhaust the stack.

use std::borrow::Cow;

use super::event::clip;
use super::tree::Tree;

/// How deep forms may be nested; histories have four or five levels.
const DEEPEST: usize = 100;

/// Why no form could be parsed.
#[derive(Debug, PartialEq)]
pub(super) enum Stop {
    /// The window ends too early.
    More,
    /// The error, and its place in the window.
    Bad(String, usize),
}

type Parsed<T> = Result<T, Stop>;

/// Parses forms from the start of some bytes.
pub(super) struct Parser<'a> {
    bytes: &'a [u8],
    /// True if no more bytes follow.
    last: bool,
    pub at: usize,
}

impl<'a> Parser<'a> {
    pub fn new(bytes: &'a [u8], last: bool) -> Parser<'a> {
        Parser { bytes, last, at: 0 }
    }

    /// The next byte after blanks, comments and discarded forms, without taking it. None at the end of the input.
    pub fn next_byte(&mut self, depth: usize) -> Parsed<Option<u8>> {
        loop {
            match self.bytes.get(self.at) {
                None if self.last => return Ok(None),
                None => return Err(Stop::More),
                Some(byte) if is_blank(*byte) => self.at += 1,
                Some(b';') => match memchr::memchr(b'\n', &self.bytes[self.at..]) {
                    Some(length) => self.at += length,
                    None if self.last => self.at = self.bytes.len(),
                    None => return Err(Stop::More),
                },
                Some(b'#') => match self.bytes.get(self.at + 1) {
                    Some(b'_') => {
                        self.at += 2;
                        self.form(depth + 1)?;
                    }
                    None if !self.last => return Err(Stop::More),
                    _ => return Ok(Some(b'#')),
                },
                Some(&byte) => return Ok(Some(byte)),
            }
        }
    }

    /// The next form.
    pub fn form(&mut self, depth: usize) -> Parsed<Tree<'a>> {
        if depth > DEEPEST {
            return self.bad(format!("nested deeper than {DEEPEST} forms"));
        }
        let Some(byte) = self.next_byte(depth)? else { return self.bad("the input ends where a form was expected") };
        match byte {
            b'"' => self.string().map(Tree::Text),
            b'{' => self.map(depth),
            b'[' => self.items(b']', depth).map(Tree::List),
            b'(' => self.items(b')', depth).map(Tree::List),
            b'#' => self.tagged(depth),
            b'\\' => self.character(),
            b'}' | b']' | b')' => self.bad(format!("`{}` closes nothing", char::from(byte))),
            b':' => {
                self.at += 1;
                match self.token()? {
                    "" => self.bad("a colon without a name"),
                    word => Ok(Tree::Keyword(word)),
                }
            }
            _ => Ok(match self.token()? {
                "nil" => Tree::Nil,
                "true" => Tree::Bool(true),
                "false" => Tree::Bool(false),
                token => number_or_symbol(token),
            }),
        }
    }

    fn bad<T>(&self, reason: impl Into<String>) -> Parsed<T> {
        Err(Stop::Bad(reason.into(), self.at))
    }

    /// The error for a window that ends inside a form.
    fn cut<T>(&self, reason: &str) -> Parsed<T> {
        if self.last { self.bad(reason) } else { Err(Stop::More) }
    }

    /// The forms up to the closing byte, which is consumed too.
    fn items(&mut self, close: u8, depth: usize) -> Parsed<Vec<Tree<'a>>> {
        self.at += 1;
        let mut items = Vec::new();
        loop {
            match self.next_byte(depth)? {
                None => return self.bad(format!("the input ends where a `{}` was expected", char::from(close))),
                Some(byte) if byte == close => {
                    self.at += 1;
                    return Ok(items);
                }
                Some(_) => items.push(self.form(depth + 1)?),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Parsed<Tree<'a>> {
        let mut entries = Vec::with_capacity(8);
        self.at += 1;
        loop {
            match self.next_byte(depth)? {
                None => return self.bad("the input ends where a `}` was expected"),
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Tree::Map(entries));
                }
                Some(_) => {
                    let key = self.form(depth + 1)?;
                    if self.next_byte(depth)? == Some(b'}') {
                        return self.bad("a key of a map without a value");
                    }
                    entries.push((key, self.form(depth + 1)?));
                }
            }
        }
    }

    /// A set, a symbolic number such as `##NaN`, or a tagged form.
    fn tagged(&mut self, depth: usize) -> Parsed<Tree<'a>> {
        self.at += 1;
        match self.bytes.get(self.at) {
            Some(b'{') => self.items(b'}', depth).map(Tree::List),
            Some(b'#') => {
                self.at += 1;
                Ok(Tree::Odd(format!("##{}", clip(self.token()?)).into()))
            }
            _ => match self.token()? {
                "" => self.bad("a `#` without a tag"),
                tag => Ok(Tree::Tagged(tag, Box::new(self.form(depth + 1)?))),
            },
        }
    }

    /// Everything up to the next delimiter.
    fn token(&mut self) -> Parsed<&'a str> {
        let rest = &self.bytes[self.at..];
        let Some(length) = rest.iter().position(|byte| is_blank(*byte) || b"\"{}[]();".contains(byte)) else {
            if !self.last {
                return Err(Stop::More);
            }
            return self.plain(rest);
        };
        self.plain(&rest[..length])
    }

    /// Consumes these bytes, if they are text without control characters.
    fn plain(&mut self, bytes: &'a [u8]) -> Parsed<&'a str> {
        if bytes.iter().any(u8::is_ascii_control) {
            return self.bad("a control character");
        }
        let Ok(text) = str::from_utf8(bytes) else { return self.bad("not UTF-8") };
        self.at += bytes.len();
        Ok(text)
    }

    fn character(&mut self) -> Parsed<Tree<'a>> {
        self.at += 1;
        let start = self.at;
        match self.bytes.get(start) {
            None => return self.cut("a `\\` without a character"),
            Some(byte) if is_blank(*byte) && *byte != b',' => return self.bad("a `\\` without a character"),
            // The first letter is part of the character literal even if it is a delimiter.
            Some(byte) => self.at += usize::from(byte.is_ascii()),
        }
        self.token()?;
        let end = std::mem::replace(&mut self.at, start);
        let text = self.plain(&self.bytes[start..end])?;
        Ok(Tree::Text(match text {
            "newline" => "\n".into(),
            "return" => "\r".into(),
            "space" => " ".into(),
            "tab" => "\t".into(),
            _ if text.chars().nth(1).is_none() => text.into(),
            _ => match text.strip_prefix('u').filter(|hex| hex.len() == 4).and_then(code_unit).map(u32::from) {
                Some(code) => char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER).to_string().into(),
                None => return self.bad(format!("an unknown character `\\{}`", clip(text))),
            },
        }))
    }

    fn string(&mut self) -> Parsed<Cow<'a, str>> {
        self.at += 1;
        let mut text = Cow::Borrowed("");
        loop {
            let rest = &self.bytes[self.at..];
            let Some(length) = memchr::memchr2(b'"', b'\\', rest) else { return self.cut("a string without an end") };
            let piece = &rest[..length];
            if memchr::memchr(0, piece).is_some() {
                return self.bad("a NUL in a string");
            }
            let Ok(piece) = str::from_utf8(piece) else { return self.bad("a string that is not UTF-8") };
            // Only a string with escapes is copied.
            if text.is_empty() {
                text = Cow::Borrowed(piece)
            } else {
                text.to_mut().push_str(piece)
            }
            self.at += length + 1;
            if rest[length] == b'"' {
                return Ok(text);
            }
            let letter = self.escape()?;
            text.to_mut().push(letter);
        }
    }

    /// The character of an escape; its backslash is already consumed.
    fn escape(&mut self) -> Parsed<char> {
        let Some(&letter) = self.bytes.get(self.at) else { return self.cut("a string without an end") };
        self.at += 1;
        Ok(match letter {
            b'n' => '\n',
            b't' => '\t',
            b'r' => '\r',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'"' | b'\\' | b'/' | b'\'' => char::from(letter),
            b'u' => {
                let first = self.unit()?;
                if let Some(letter) = char::from_u32(first.into()) {
                    return Ok(letter);
                }
                // The first half of a UTF-16 surrogate pair; the second half must follow.
                match self.bytes.get(self.at..self.at + 2) {
                    Some(b"\\u") => self.at += 2,
                    None => return self.cut("a string without an end"),
                    Some(_) => return self.bad("an incomplete UTF-16 character"),
                }
                let second = self.unit()?;
                match char::decode_utf16([first, second]).next() {
                    Some(Ok(letter)) => letter,
                    _ => return self.bad("an incomplete UTF-16 character"),
                }
            }
            _ => return self.bad("an unknown escape in a string"),
        })
    }

    /// Four hexadecimal digits.
    fn unit(&mut self) -> Parsed<u16> {
        let Some(digits) = self.bytes.get(self.at..self.at + 4) else { return self.cut("a string without an end") };
        let Some(unit) = str::from_utf8(digits).ok().and_then(code_unit) else {
            return self.bad("an escape that lacks four hexadecimal digits");
        };
        self.at += 4;
        Ok(unit)
    }
}

fn code_unit(hex: &str) -> Option<u16> {
    hex.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| u16::from_str_radix(hex, 16).ok())?
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b',' | 0x0c)
}

/// A token that begins like a number is a number, or nothing that can be a value. All others are symbols.
fn number_or_symbol(token: &str) -> Tree<'_> {
    let digits = token.strip_prefix(['+', '-']).unwrap_or(token);
    if !digits.starts_with(|first: char| first.is_ascii_digit()) {
        return Tree::Keyword(token);
    }
    let whole = token.strip_suffix('N').unwrap_or(token);
    let octal = digits.len() > 1 && digits.starts_with('0') && digits != "0N";
    match whole.parse() {
        Ok(number) if !octal => Tree::Int(number),
        _ => Tree::Odd(clip(token).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Parsed<Tree<'_>> {
        Parser::new(text.as_bytes(), true).form(0)
    }

    fn text(text: &str) -> Tree<'_> {
        Tree::Text(text.into())
    }

    #[test]
    fn forms_are_read_as_edn_means_them() {
        let list = |items: &[Tree<'static>]| Tree::List(items.to_vec());
        for (form, tree) in [
            ("nil", Tree::Nil),
            ("true", Tree::Bool(true)),
            (" ; nothing\n -12 ", Tree::Int(-12)),
            ("12N", Tree::Int(12)),
            ("+5", Tree::Int(5)),
            ("0", Tree::Int(0)),
            ("-9223372036854775808", Tree::Int(i64::MIN)),
            ("9223372036854775808", Tree::Odd("9223372036854775808".into())),
            ("1.5", Tree::Odd("1.5".into())),
            ("1M", Tree::Odd("1M".into())),
            ("017", Tree::Odd("017".into())),
            ("##NaN", Tree::Odd("##NaN".into())),
            (":jepsen.nemesis/start", Tree::Keyword("jepsen.nemesis/start")),
            ("foo", Tree::Keyword("foo")),
            ("-", Tree::Keyword("-")),
            (r#""a\"b\\\n\u00e9""#, text("a\"b\\\né")),
            (r#""\ud83d\ude00""#, text("😀")),
            ("\"é\"", text("é")),
            (r"\a", text("a")),
            (r"\newline", text("\n")),
            (r"\u0041", text("A")),
            (r"[\) \,]", list(&[text(")"), text(",")])),
            ("(1,2)", list(&[Tree::Int(1), Tree::Int(2)])),
            ("#{1}", list(&[Tree::Int(1)])),
            ("[#_ 1 2 #_#_ 3 4]", list(&[Tree::Int(2)])),
            ("{:a 1}", Tree::Map(vec![(Tree::Keyword("a"), Tree::Int(1))])),
            ("#inst \"2015\"", Tree::Tagged("inst", Box::new(text("2015")))),
            ("#a.B{}", Tree::Tagged("a.B", Box::new(Tree::Map(vec![])))),
        ] {
            assert_eq!(parse(form), Ok(tree), "{form}");
        }
    }

    #[test]
    fn what_is_no_form_is_refused_with_its_place() {
        for (form, reason, at) in [
            ("", "the input ends", 0),
            ("[1", "the input ends where a `]`", 2),
            ("]", "closes nothing", 0),
            ("{:a}", "without a value", 3),
            ("\"a", "without an end", 1),
            (r#""\q""#, "unknown escape", 3),
            (r#""\ud83d..""#, "an incomplete UTF-16 character", 7),
            (r"\foo", "unknown character", 4),
            (":", "without a name", 1),
            ("#", "without a tag", 1),
            ("a\0b", "a control character", 0),
            ("\"\0\"", "NUL", 1),
        ] {
            let Err(Stop::Bad(found, place)) = parse(form) else { panic!("{form} was accepted") };
            assert!(found.contains(reason) && place == at, "{form}: {found} at {place}");
        }
        for deep in ["[".repeat(1 << 20), "#_".repeat(1 << 20), "#a ".repeat(1 << 20), "{1 ".repeat(1 << 20)] {
            let Err(Stop::Bad(found, _)) = parse(&deep) else { panic!("accepted") };
            assert!(found.contains("nested deeper"), "{found}");
        }
    }

    #[test]
    fn a_form_that_is_cut_off_asks_for_more_until_there_is_no_more() {
        let whole = r#"#jepsen.history.Op{:a "x\u00e9 y", :b [12N #{nil}] ; done
            #_ :c :d \newline} "#;
        for cut in 0..whole.len() - 1 {
            if whole.is_char_boundary(cut) {
                assert_eq!(Parser::new(&whole.as_bytes()[..cut], false).form(0), Err(Stop::More), "{}", &whole[..cut]);
            }
        }
        assert!(parse(whole).is_ok());
    }
}
