//! Numbers in commands, as strictly as Redis reads them.

/// A signed number in its only decimal form: no sign but `-`, no leading zeros, no spaces.
pub(crate) fn integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    let mut value: u64 = 0;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
    }
    match negative {
        true => 0_i64.checked_sub_unsigned(value),
        false => i64::try_from(value).ok(),
    }
}

/// Like [`integer`], for a number that can't be negative.
pub(crate) fn unsigned(text: &[u8]) -> Option<u64> {
    integer(text).and_then(|value| u64::try_from(value).ok())
}

/// Appends the decimal form of a number.
pub(crate) fn push(into: &mut Vec<u8>, value: i64) {
    let mut digits = [0; 20];
    let mut place = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        place -= 1;
        digits[place] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        into.push(b'-');
    }
    into.extend_from_slice(&digits[place..]);
}

/// The decimal form of a number.
pub(crate) fn text(value: i64) -> Vec<u8> {
    let mut text = Vec::with_capacity(20);
    push(&mut text, value);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_one_form() {
        for value in [0, 1, -1, 42, i64::MAX, i64::MIN] {
            assert_eq!(integer(value.to_string().as_bytes()), Some(value));
            assert_eq!(text(value), value.to_string().into_bytes());
        }
        for other in ["", "-", "-0", "+1", "01", " 1", "1 ", "1.0", "x", "9223372036854775808", "-9223372036854775809"]
        {
            assert_eq!(integer(other.as_bytes()), None, "{other:?}");
        }
        assert_eq!((unsigned(b"7"), unsigned(b"-7")), (Some(7), None));
    }
}
