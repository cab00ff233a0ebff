//! Reads Rust sources as far as the architecture needs: which paths a file names, where, and whether only tests do.
//!
//! Comments and strings are skipped, groups and aliases of `use` are opened up, `self` and `super` are resolved, also in
//! nested modules. It expands no macros and follows no re-exports. It knows nothing of the rules; the tests beside them
//! show what it is not fooled by.

use std::collections::BTreeSet;

/// A word, a path separator or a single mark of a source file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub text: String,
    pub line: usize,
    /// Inside an item that is compiled for tests only.
    pub test: bool,
}

/// A path as it stands for the crate that it is in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Named {
    /// Below the crate's root: empty for the root itself.
    Inside(Vec<String>),
    /// Of another crate, whose name comes first.
    Outside(Vec<String>),
}

/// A named path with its place.
#[derive(Clone, Debug)]
pub struct Mention {
    pub named: Named,
    pub line: usize,
    pub test: bool,
}

/// A module declared by a file, with or without its content.
#[derive(Clone, Debug)]
pub struct Declaration {
    pub name: String,
    /// Its content stands in a file of its own.
    pub elsewhere: bool,
    pub test: bool,
}

/// Cuts `text` into tokens; strings and comments leave none.
pub fn tokens(text: &str) -> Vec<Token> {
    let mut cutter = Cutter { input: text.chars().collect(), at: 0, line: 1, found: Vec::new() };
    while cutter.at < cutter.input.len() {
        cutter.cut();
    }
    mark_tests(&mut cutter.found);
    cutter.found
}

struct Cutter {
    input: Vec<char>,
    at: usize,
    line: usize,
    found: Vec<Token>,
}

impl Cutter {
    fn peek(&self, ahead: usize) -> char {
        self.input.get(self.at + ahead).copied().unwrap_or('\0')
    }

    fn advance(&mut self, count: usize) {
        for _ in 0..count {
            self.line += usize::from(self.peek(0) == '\n');
            self.at += 1;
        }
    }

    fn cut(&mut self) {
        match (self.peek(0), self.peek(1)) {
            ('/', '/') => self.skip_until("\n"),
            ('/', '*') => self.skip_block_comment(),
            ('"', _) => self.skip_string(),
            ('\'', _) => self.skip_quote(),
            (c, _) if c.is_alphanumeric() || c == '_' => self.word(),
            (':', ':') => self.emit(2),
            (c, _) if c.is_whitespace() => self.advance(1),
            _ => self.emit(1),
        }
    }

    fn emit(&mut self, length: usize) {
        let text: String = self.input.iter().skip(self.at).take(length).collect();
        self.found.push(Token { text, line: self.line, test: false });
        self.advance(length);
    }

    fn skip_until(&mut self, end: &str) {
        let end: Vec<char> = end.chars().collect();
        while self.at < self.input.len() && !self.input.iter().skip(self.at).take(end.len()).eq(end.iter()) {
            self.advance(1);
        }
        self.advance(end.len());
    }

    fn skip_block_comment(&mut self) {
        let mut depth = 0_usize;
        while self.at < self.input.len() {
            match (self.peek(0), self.peek(1)) {
                ('/', '*') => depth += 1,
                ('*', '/') => depth -= 1,
                _ => {
                    self.advance(1);
                    continue;
                }
            }
            self.advance(2);
            if depth == 0 {
                return;
            }
        }
    }

    fn skip_string(&mut self) {
        self.advance(1);
        while self.at < self.input.len() && self.peek(0) != '"' {
            self.advance(if self.peek(0) == '\\' { 2 } else { 1 });
        }
        self.advance(1);
    }

    /// A character or a lifetime.
    fn skip_quote(&mut self) {
        if self.peek(1) == '\\' {
            self.advance(3);
            self.skip_until("'");
        } else if self.peek(2) == '\'' {
            self.advance(3);
        } else {
            self.advance(1);
            self.skip_word();
        }
    }

    fn skip_word(&mut self) -> String {
        let word: String =
            self.input.iter().skip(self.at).take_while(|c| c.is_alphanumeric() || **c == '_').collect();
        self.advance(word.chars().count());
        word
    }

    /// A word, or the string or raw name that it opens.
    fn word(&mut self) {
        let line = self.line;
        let mut text = self.skip_word();
        let hashes = (0..).take_while(|&ahead| self.peek(ahead) == '#').count();
        let raw = matches!(text.as_str(), "r" | "br" | "cr");
        if raw && self.peek(hashes) == '"' {
            self.advance(hashes + 1);
            return self.skip_until(&format!("\"{}", "#".repeat(hashes)));
        }
        if matches!(text.as_str(), "b" | "c") && matches!(self.peek(0), '"' | '\'') {
            return;
        }
        if text == "r" && hashes == 1 {
            self.advance(1);
            text = self.skip_word();
        }
        self.found.push(Token { text, line, test: false });
    }
}

/// Marks what follows `#[cfg(test)]`, to the end of the item; all of a file that opens with `#![cfg(test)]`.
fn mark_tests(tokens: &mut [Token]) {
    let words: Vec<String> = tokens.iter().map(|token| token.text.clone()).collect();
    for start in 0..words.len() {
        let rest = &words[start..];
        let whole = starts_with(rest, &["#", "!", "[", "cfg", "(", "test", ")", "]"]);
        if whole || starts_with(rest, &["#", "[", "cfg", "(", "test", ")", "]"]) {
            let end = if whole { words.len() } else { start + 7 + item_length(&rest[7..]) };
            tokens[start..end.min(words.len())].iter_mut().for_each(|token| token.test = true);
        }
    }
}

fn starts_with(words: &[String], pattern: &[&str]) -> bool {
    words.len() >= pattern.len() && words.iter().zip(pattern).all(|(word, wanted)| word == wanted)
}

/// How many tokens the item at the front has: to its `;`, or to the end of its braces.
fn item_length(words: &[String]) -> usize {
    let mut depth = 0_usize;
    for (index, word) in words.iter().enumerate() {
        match word.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 && matches!(word.as_str(), ";" | "}") {
            return index + 1;
        }
    }
    words.len()
}

/// The modules that `tokens` declare at any depth.
pub fn declarations(tokens: &[Token]) -> Vec<Declaration> {
    let declares = |window: &[Token]| {
        let [keyword, name, end] = window else { return None };
        let declared = keyword.text == "mod" && matches!(end.text.as_str(), ";" | "{");
        let elsewhere = end.text == ";";
        declared.then(|| Declaration { name: name.text.clone(), elsewhere, test: name.test })
    };
    tokens.windows(3).filter_map(declares).collect()
}

/// Every path that `tokens` name, for a file that is the module `module` (empty for the root) of the library, or, if
/// `library` is its name for the library, of a binary beside it. A binary's own paths are nobody else's business.
pub fn mentions(tokens: &[Token], module: &[String], library: Option<&str>) -> Vec<Mention> {
    let local = declarations(tokens).into_iter().map(|declared| declared.name).collect();
    let mut reader = Reader {
        tokens,
        at: 0,
        module: module.to_vec(),
        opened: Vec::new(),
        local,
        imported: Vec::new(),
        library,
    };
    // The first pass finds what is imported, which may stand below its use.
    reader.read_all();
    reader.at = 0;
    reader.read_all()
}

struct Reader<'a> {
    tokens: &'a [Token],
    at: usize,
    /// Where the reader is.
    module: Vec<String>,
    /// For every open brace, whether it opened a module.
    opened: Vec<bool>,
    /// Modules that this file declares, which hide crates of the same name.
    local: BTreeSet<String>,
    /// Names that a `use` brought in, and whether only tests see them. Their paths were told where they were imported.
    imported: Vec<(String, bool)>,
    library: Option<&'a str>,
}

impl Reader<'_> {
    fn text(&self, ahead: usize) -> &str {
        self.tokens.get(self.at + ahead).map_or("", |token| token.text.as_str())
    }

    fn read_all(&mut self) -> Vec<Mention> {
        let mut found = Vec::new();
        while self.at < self.tokens.len() {
            self.read(&mut found);
        }
        found
    }

    fn read(&mut self, found: &mut Vec<Mention>) {
        match (self.text(0), self.text(2)) {
            ("mod", "{") => {
                self.module.push(self.text(1).to_owned());
                self.opened.push(true);
                self.at += 3;
            }
            ("{", _) => {
                self.opened.push(false);
                self.at += 1;
            }
            ("}", _) => {
                if self.opened.pop() == Some(true) {
                    self.module.pop();
                }
                self.at += 1;
            }
            ("use", _) if self.text(1) != "<" => {
                self.at += 1;
                self.read_tree(&[], found);
            }
            ("extern", _) if self.text(1) == "crate" => {
                self.at += 2;
                self.mention(&["::".to_owned(), self.text(0).to_owned()], found);
                self.at += 1;
            }
            _ => self.read_path(found),
        }
    }

    /// One tree of a `use`, after `prefix`, up to the `;`, `,` or `}` that ends it.
    fn read_tree(&mut self, prefix: &[String], found: &mut Vec<Mention>) {
        let mut path = prefix.to_vec();
        let mut name = None;
        loop {
            match self.text(0) {
                "{" => {
                    self.at += 1;
                    while !matches!(self.text(0), "}" | "") {
                        self.read_tree(&path, found);
                        self.at += usize::from(self.text(0) == ",");
                    }
                    self.at += 1;
                    return;
                }
                "::" if path.is_empty() => {
                    path.push("::".to_owned());
                    self.at += 1;
                }
                "::" => self.at += 1,
                "as" => {
                    name = Some(self.text(1).to_owned());
                    self.at += 2;
                }
                ";" | "," | "}" | "" => {
                    if path.len() > 1 {
                        let test = self.tokens.get(self.at).is_some_and(|token| token.test);
                        let last = path.iter().rfind(|word| *word != "self").cloned();
                        self.imported.extend(name.or(last).map(|name| (name, test)));
                    }
                    return self.mention(&path, found);
                }
                word => {
                    path.push(word.to_owned());
                    self.at += 1;
                }
            }
        }
    }

    /// A path outside a `use`: at least two names, or nothing that matters.
    fn read_path(&mut self, found: &mut Vec<Mention>) {
        let follows_value =
            self.at > 0 && self.tokens.get(self.at - 1).is_some_and(|token| token.text == ".");
        let mut path = Vec::new();
        if self.text(0) == "::" {
            path.push("::".to_owned());
            self.at += 1;
        }
        while is_name(self.text(0)) {
            path.push(self.text(0).to_owned());
            self.at += 1;
            if self.text(0) != "::" || !is_name(self.text(1)) {
                break;
            }
            self.at += 1;
        }
        let test = self.tokens.get(self.at.saturating_sub(1)).is_some_and(|token| token.test);
        let known =
            |first: &String| self.imported.iter().any(|(name, tests)| name == first && (test || !tests));
        if path.len() > 1 && !follows_value && !path.first().is_some_and(known) {
            self.at -= 1;
            self.mention(&path, found);
            self.at += 1;
        }
        self.at += usize::from(path.is_empty());
    }

    fn mention(&self, path: &[String], found: &mut Vec<Mention>) {
        let token = self.tokens.get(self.at.min(self.tokens.len().saturating_sub(1)));
        let (line, test) = token.map_or((0, false), |token| (token.line, token.test));
        if let Some(named) = self.resolve(path) {
            found.push(Mention { named, line, test });
        }
    }

    fn resolve(&self, path: &[String]) -> Option<Named> {
        let mut module = self.module.clone();
        let mut rest = path.iter().map(String::as_str).peekable();
        let first = rest.next()?;
        match first {
            "::" => return self.outside(rest.map(str::to_owned).collect()),
            "crate" => module.clear(),
            "self" => {}
            "super" => {
                module.pop();
            }
            name if self.local.contains(name) => module.push(name.to_owned()),
            _ => return self.outside(path.to_vec()),
        }
        while rest.next_if(|word| *word == "super").is_some() {
            module.pop();
        }
        if self.library.is_some() {
            return None;
        }
        module.extend(rest.filter(|word| !matches!(*word, "self" | "*")).map(str::to_owned));
        Some(Named::Inside(module))
    }

    fn outside(&self, path: Vec<String>) -> Option<Named> {
        let (first, rest) = path.split_first()?;
        if self.library == Some(first.as_str()) {
            return Some(Named::Inside(
                rest.iter().filter(|word| *word != "self" && *word != "*").cloned().collect(),
            ));
        }
        Some(Named::Outside(path))
    }
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}
