//! A gzip file of nothing but zeros, as dense as the format allows.
//!
//! One block with two one-bit codes: "258 more of the same" costs two bits, so that a byte on the wire becomes
//! about a thousand in memory. Built by hand (RFC 1951 and 1952), for that ratio and to need no library.

/// The longest match that deflate knows, in bytes.
const MATCH: usize = 258;

/// A gzip file that unpacks to `length` zero bytes.
pub(super) fn gzip_of_zeros(length: usize) -> Vec<u8> {
    let mut file = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
    file.extend(deflate_of_zeros(length));
    file.extend_from_slice(&crc_of_zeros(length).to_le_bytes());
    // RFC 1952: the size modulo 2^32.
    file.extend_from_slice(&(length as u32).to_le_bytes());
    file
}

/// One dynamic block: literal 0 is the code `10`, end of block `11`, a match of 258 `0`, distance 1 `0`.
fn deflate_of_zeros(length: usize) -> Vec<u8> {
    let mut bits = Bits::default();
    bits.number(1, 1); // the last block
    bits.number(2, 2); // with codes of its own
    bits.number(29, 5); // 286 literal and length codes
    bits.number(0, 5); // one distance code
    bits.number(14, 4); // 18 lengths of length codes follow, in the format's odd order (16, 17, 18, 0, 8, …, 2, 14, 1)
    for size in [0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 2] {
        bits.number(size, 3);
    }
    // From here on: `0` is a run of zeros (11 and seven bits more), `10` is the length 1, `11` the length 2.
    bits.code("11"); // literal 0 has two bits
    bits.code("0");
    bits.number(138 - 11, 7); // the literals 1 to 138 are absent
    bits.code("0");
    bits.number(117 - 11, 7); // the literals 139 to 255 too
    bits.code("11"); // end of block has two bits
    bits.code("0");
    bits.number(28 - 11, 7); // the lengths 257 to 284 are absent
    bits.code("10"); // the length 285, a match of 258, has one bit
    bits.code("10"); // and so has the distance 1

    let matches = length.saturating_sub(1) / MATCH;
    for _ in 0..length - matches * MATCH {
        bits.code("10");
    }
    for _ in 0..matches {
        bits.code("00");
    }
    bits.code("11");
    bits.bytes
}

/// CRC-32 as gzip wants it, of `length` zero bytes.
fn crc_of_zeros(length: usize) -> u32 {
    let step = |low: u32| (0..8).fold(low, |crc, _| (crc >> 1) ^ (0xedb8_8320 * (crc & 1)));
    let table: Vec<u32> = (0..256).map(step).collect();
    !(0..length).fold(u32::MAX, |crc, _| (crc >> 8) ^ table[(crc & 0xff) as usize])
}

/// Bits packed from the low end of each byte.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    used: usize,
}

impl Bits {
    /// A number of `width` bits, lowest first.
    fn number(&mut self, value: u32, width: usize) {
        for position in 0..width {
            self.push(value >> position & 1 == 1);
        }
    }

    /// A code word, written as zeros and ones.
    fn code(&mut self, word: &str) {
        for digit in word.bytes() {
            self.push(digit == b'1');
        }
    }

    fn push(&mut self, bit: bool) {
        if self.used.is_multiple_of(8) {
            self.bytes.push(0);
        }
        if let Some(last) = self.bytes.last_mut() {
            *last |= u8::from(bit) << (self.used % 8);
        }
        self.used += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    /// What the system's own `gzip` makes of `file`; it checks the CRC and the size as well.
    fn unpacked(file: &[u8]) -> Vec<u8> {
        let mut gzip =
            Command::new("gzip").arg("-dc").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        gzip.stdin.take().unwrap().write_all(file).unwrap();
        let output = gzip.wait_with_output().unwrap();
        assert!(output.status.success());
        output.stdout
    }

    #[test]
    fn unpacks_to_exactly_so_many_zeros() {
        for length in [0, 1, 2, 258, 259, 260, 517, 100_000] {
            assert_eq!(unpacked(&gzip_of_zeros(length)), vec![0; length], "{length} bytes");
        }
    }

    #[test]
    fn sixty_four_mebibytes_fit_into_sixty_four_kibibytes() {
        assert!(gzip_of_zeros(64 * 1024 * 1024).len() < 65_500);
    }
}
