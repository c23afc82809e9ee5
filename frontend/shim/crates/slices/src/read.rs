//! A slice from its bytes: little-endian, without padding. What it reads is bounded by the bytes that there are.

use crate::form::{Argument, Block, Call, Code, End, Input, Operation, Origin, Place, Slice, Spot};
use crate::Malformed;

const NO_TARGET: u16 = u16::MAX;

impl Slice {
    /// The return address of the call at which a slice of these bytes begins, which are not read any further.
    #[must_use]
    pub fn entry_of(bytes: &[u8]) -> Option<u64> {
        bytes.first_chunk().copied().map(u64::from_le_bytes)
    }

    /// The slice that these bytes are, all of them.
    ///
    /// # Errors
    /// The rule that is broken.
    pub fn read(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader(bytes);
        let slice = reader.slice()?;
        if !reader.0.is_empty() {
            return Err(Malformed("bytes behind it".to_owned()));
        }
        slice.check()?;
        Ok(slice)
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or_else(|| Malformed("it is cut off".to_owned()))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N)?);
        Ok(array)
    }

    fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn flag(&mut self) -> Result<bool, Malformed> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed("a flag that is neither 0 nor 1".to_owned())),
        }
    }

    fn several<T>(
        &mut self,
        count: usize,
        one: impl Fn(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let mut found = Vec::new();
        for _ in 0..count {
            found.push(one(self)?);
        }
        Ok(found)
    }

    fn slice(&mut self) -> Result<Slice, Malformed> {
        let entry = self.u64()?;
        let [registers, memory, inputs, blocks, calls] = std::array::from_fn(|_| self.u16().map(usize::from));
        let (registers, memory, inputs, blocks, calls) = (registers?, memory?, inputs?, blocks?, calls?);
        let floating = self.flag()?;
        if self.u8()? != 0 {
            return Err(Malformed("fields that are not defined".to_owned()));
        }
        let inputs = self.several(inputs, Self::input)?;
        let calls = self.several(calls, Self::call)?;
        let blocks = self.several(blocks, Self::block)?;
        Ok(Slice { entry, registers, memory, inputs, blocks, calls, floating })
    }

    fn spot(&mut self) -> Result<Spot, Malformed> {
        let (held, at, width) = (self.flag()?, self.u16()?, self.u16()?);
        Ok(if held { Spot::Register { number: at, width } } else { Spot::Memory(Place { offset: at, size: width }) })
    }

    fn input(&mut self) -> Result<Input, Malformed> {
        let (origin, to, number) = (self.u8()?, self.spot()?, self.u64()?);
        let origin = match origin {
            0 => Origin::Register(number),
            1 => Origin::Frame(number),
            2 => Origin::Global(number),
            3 => Origin::BehindRegister { number: number & 0xFFFF_FFFF, behind: number >> 32 },
            4 => Origin::BehindFrame { offset: number & 0xFFFF_FFFF, behind: number >> 32 },
            5 if number == 0 => Origin::Bias,
            _ => return Err(Malformed(format!("an input's origin {origin}"))),
        };
        Ok(Input { origin, to })
    }

    fn call(&mut self) -> Result<Call, Malformed> {
        let (site, length, arguments) = (self.u64()?, self.u8()?, self.u8()?);
        let (source, fills) = (self.place()?, self.place()?);
        let name = std::str::from_utf8(self.bytes(length.into())?).map_err(|error| Malformed(error.to_string()))?;
        let arguments =
            self.several(arguments.into(), |reader| Ok(Argument { number: reader.u8()?, value: reader.spot()? }))?;
        Ok(Call { site, name: name.to_owned(), arguments, source, fills })
    }

    /// Two zeros: none.
    fn place(&mut self) -> Result<Option<Place>, Malformed> {
        let (offset, size) = (self.u16()?, self.u16()?);
        Ok((offset != 0 || size != 0).then_some(Place { offset, size }))
    }

    fn block(&mut self) -> Result<Block, Malformed> {
        let count = self.u16()?.into();
        Ok(Block { operations: self.several(count, Self::operation)?, end: self.end()? })
    }

    fn operation(&mut self) -> Result<Operation, Malformed> {
        let (number, width, target) = (self.u8()?, self.u8()?, self.u16()?);
        let code = Code::of(number).ok_or_else(|| Malformed(format!("operation {number}")))?;
        let mut operands = [0; 3];
        for operand in &mut operands[..code.shape().0] {
            *operand = self.u16()?;
        }
        let immediate = if code.has_immediate() { self.u64()? } else { 0 };
        Ok(Operation { code, width, target: (target != NO_TARGET).then_some(target), operands, immediate })
    }

    fn end(&mut self) -> Result<End, Malformed> {
        Ok(match self.u8()? {
            0 => End::Jump(self.u16()?),
            1 => End::Branch { register: self.u16()?, then: self.u16()?, other: self.u16()? },
            2 => End::Called { call: self.u16()?, block: self.u16()? },
            3 => End::Leave(self.u64()?),
            other => return Err(Malformed(format!("a block's end {other}"))),
        })
    }
}
