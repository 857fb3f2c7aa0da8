//! Whether an address is one that a call returns to, and what was called.

/// A call instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// Of the function at that address, or of a stub that jumps to it.
    Direct(usize),
    /// Of an address in a register or in memory.
    Indirect,
}

/// The call at the end of `code`, whose last byte is before `end`. Bytes that end like a call may be one by
/// chance.
pub(crate) fn call_at_end(code: &[u8], end: usize) -> Option<Call> {
    const DIRECT: u8 = 0xe8;
    if let Some(&[DIRECT, a, b, c, d]) = code.last_chunk() {
        let distance = i32::from_le_bytes([a, b, c, d]);
        return Some(Call::Direct(end.wrapping_add_signed(distance as isize)));
    }
    let is_call =
        |length| code.len() >= length && indirect_length(&code[code.len() - length..]) == Some(length);
    (2..=7).any(is_call).then_some(Call::Indirect)
}

/// How long the indirect call is with which `code` begins. Prefixes, which may come first, do not matter.
fn indirect_length(code: &[u8]) -> Option<usize> {
    const GROUP: u8 = 0xff;
    const CALL: u8 = 2;
    let &[GROUP, operand, ref rest @ ..] = code else { return None };
    let (mode, extension, register) = (operand >> 6, operand >> 3 & 7, operand & 7);
    if extension != CALL {
        return None;
    }
    let scaled = mode != 3 && register == 4;
    let has_base = !scaled || rest.first()? & 7 != 5;
    let displacement = match mode {
        0 if register == 5 || !has_base => 4,
        1 => 1,
        2 => 4,
        _ => 0,
    };
    Some(2 + usize::from(scaled) + displacement)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_recognized() {
        let indirect: [&[u8]; 10] = [
            &[0xff, 0xd0],                                     // call rax
            &[0x41, 0xff, 0xd7],                               // call r15
            &[0xff, 0x10],                                     // call [rax]
            &[0xff, 0x14, 0xc8],                               // call [rax + rcx * 8]
            &[0xff, 0x53, 0x18],                               // call [rbx + 24]
            &[0xff, 0x54, 0x24, 0x08],                         // call [rsp + 8]
            &[0xff, 0x15, 0x01, 0x02, 0x03, 0x04],             // call [rip + …]
            &[0xff, 0x93, 0x00, 0x01, 0x00, 0x00],             // call [rbx + 256]
            &[0xff, 0x94, 0x24, 0x00, 0x01, 0x00, 0x00],       // call [rsp + 256]
            &[0x42, 0xff, 0x14, 0xc5, 0x10, 0x00, 0x00, 0x00], // call [r8 * 8 + 16]
        ];
        for code in indirect {
            assert_eq!(call_at_end(code, 0), Some(Call::Indirect), "{code:02x?}");
        }
        let direct = [0x90, 0xe8, 0xfb, 0xff, 0xff, 0xff];
        assert_eq!(call_at_end(&direct, 0x1000), Some(Call::Direct(0xffb)));
    }

    #[test]
    fn other_instructions_are_not() {
        let others: [&[u8]; 6] = [
            &[0xff, 0xe0],                   // jmp rax
            &[0xff, 0x75, 0x18],             // push [rbp + 24]
            &[0x48, 0x89, 0xc8],             // mov rax, rcx
            &[0xe8, 0x00, 0x00, 0x00],       // cut off
            &[0xff, 0x15, 0x01, 0x02, 0x03], // cut off
            &[],
        ];
        for code in others {
            assert_eq!(call_at_end(code, 0), None, "{code:02x?}");
        }
    }
}
