//! Tools for checking drawings without looking at them.

/// The position of a text in a drawing, with an estimate of its letters' width.
pub struct TextBox {
    pub text: String,
    left: f64,
    right: f64,
    line: f64,
}

impl TextBox {
    pub fn meets(&self, other: &TextBox) -> bool {
        (self.line - other.line).abs() < 10.0 && self.left < other.right && other.left < self.right
    }
}

/// The texts of a drawing, each with its position.
pub fn text_boxes(svg: &str) -> Vec<TextBox> {
    let attribute = |tag: &str, name: &str| {
        let start = tag.find(&format!(" {name}=\""))? + name.len() + 3;
        Some(tag[start..].split('"').next()?.to_string())
    };
    (svg.split("<text").skip(1))
        .map(|rest| {
            let (tag, rest) = rest.split_once('>').expect("an end of the tag");
            let content = rest.split("</text>").next().unwrap_or_default();
            let text: String = content.split('<').map(|part| part.rsplit('>').next().unwrap_or(part)).collect();
            let text = text.replace("&quot;", "'").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
            let small = tag.contains("small") || tag.contains("onbar");
            let width = text.chars().count() as f64 * if small { 5.6 } else { 6.2 };
            let number = |name: &str| attribute(tag, name).and_then(|text| text.parse::<f64>().ok()).expect("a place");
            let shift = match attribute(tag, "text-anchor").as_deref() {
                Some("middle") => width / 2.0,
                Some("end") => width,
                _ => 0.0,
            };
            let left = number("x") - shift;
            TextBox { text, left, right: left + width, line: number("y") }
        })
        .collect()
}

/// An error in a drawing's XML: mismatched tags, unquoted attributes, unescaped characters. None if there is none.
pub fn malformed(svg: &str) -> Option<String> {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = svg;
    while let Some(start) = rest.find('<') {
        let (text, tag) = rest.split_at(start);
        if text.contains('>') || entities(text).is_none() {
            return Some(format!("text {text:?}"));
        }
        let Some(end) = tag.find('>') else { return Some("a tag without an end".into()) };
        let inside = &tag[1..end];
        rest = &tag[end + 1..];
        if let Some(name) = inside.strip_prefix('/') {
            if open.pop() != Some(name) {
                return Some(format!("</{name}> closes nothing"));
            }
            continue;
        }
        let (name, attributes) = inside.split_once(' ').unwrap_or((inside, ""));
        let quotes: Vec<&str> = attributes.split('"').collect();
        let names = quotes.iter().step_by(2).map(|name| name.trim()).filter(|name| !name.is_empty());
        if quotes.len().is_multiple_of(2)
            || !names.clone().all(|name| name.ends_with('=') && !name[..name.len() - 1].contains(['=', ' ']))
        {
            return Some(format!("attributes {attributes:?}"));
        }
        if attributes.contains('<') || entities(attributes).is_none() {
            return Some(format!("attributes {attributes:?}"));
        }
        open.push(name);
    }
    open.last().map(|name| format!("<{name}> is never closed"))
}

/// None unless every ampersand begins an entity.
fn entities(text: &str) -> Option<()> {
    for rest in text.split('&').skip(1) {
        let name = rest.split(';').next().filter(|name| name.len() < rest.len())?;
        ["amp", "lt", "gt", "quot"].contains(&name).then_some(())?;
    }
    Some(())
}
