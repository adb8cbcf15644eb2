//! Adds the functions of a builder to another builder.

use alloc::vec::Vec;

use crate::Reason;
use crate::sframe::builder::Builder;
use crate::sframe::draft::Draft;
use cfipack_format::pool::{Pool, Serial};

impl<'a> Builder<'a> {
    /// Adds the functions of another builder, as if you had pushed them here one after the other. Their rows
    /// stay as the other builder encoded them. If you build shards on several threads and absorb them in a
    /// fixed order, the bytes are always the same.
    ///
    /// This takes hardly any time. The rows are joined when you [finish](Self::finish_with) on the threads of a
    /// pool, or when you push another function. Only if there may be no room, they are joined now, on `pool`.
    ///
    /// # Errors
    /// There is no room for the whole shard, the shard is for another architecture or version of the format, or
    /// only one of the builders has functions with addresses ([`Reason::KeysMixed`]). After an error nothing of
    /// the shard was added.
    pub fn absorb(&mut self, shard: Self, pool: &dyn Pool) -> Result<(), Reason> {
        self.absorb_all(Vec::from([shard]), pool)
    }

    /// Adds the functions of several builders as [`absorb`](Self::absorb) does. After an error nothing of any
    /// shard was added.
    ///
    /// # Errors
    /// The errors of [`absorb`](Self::absorb).
    pub fn absorb_all(&mut self, shards: Vec<Self>, pool: &dyn Pool) -> Result<(), Reason> {
        let undefined_cfi: u64 = shards.iter().map(|shard| shard.undefined_cfi).sum();
        self.draft.absorb(shards.into_iter().map(|shard| shard.draft).collect(), pool)?;
        self.undefined_cfi += undefined_cfi;
        Ok(())
    }
}

impl<'a> Draft<'a> {
    /// Adds the functions of other drafts.
    fn absorb(&mut self, mut shards: Vec<Self>, pool: &dyn Pool) -> Result<(), Reason> {
        let mut have_addresses = self.entries.have_addresses;
        for shard in &shards {
            if shard.abi != self.abi {
                return Err(Reason::Architecture);
            }
            if shard.options.version != self.options.version {
                return Err(Reason::Version);
            }
            if let Some(others) = shard.entries.have_addresses {
                self.can_take(others)?;
                if have_addresses.is_some_and(|have_addresses| have_addresses != others) {
                    return Err(Reason::KeysMixed);
                }
                have_addresses = Some(others);
            }
        }
        self.entries.flush(&mut self.fres);
        for shard in &mut shards {
            shard.entries.settle_on(&Serial);
            shard.entries.flush(&mut shard.fres);
        }
        self.entries.absorb(shards.into_iter().map(|shard| shard.entries).collect(), pool)
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;

    use cfipack_format::sframe::Version;
    use cfipack_format::{Address, Arch, Key};

    use crate::Reason;
    use crate::cfi::{Section, SectionKind};
    use crate::eh_frame::{CIE, fde};
    use crate::sframe::table::entries::Entries;
    use crate::sframe::{Builder, Options};
    use cfipack_format::pool::Serial;

    /// A section of three functions. The last function has the rows of the first.
    fn section() -> Vec<u8> {
        let mut bytes = CIE.to_vec();
        for (number, instructions) in (0..).zip([*b"\x41\x0e\x10", *b"\x42\x0e\x10", *b"\x41\x0e\x10"]) {
            fde(&mut bytes, 0, 0x1000 + 0x100 * number, 0x100, &instructions);
        }
        bytes
    }

    /// A builder with these functions.
    fn filled(bytes: &[u8], options: Options) -> Builder<'_> {
        let section = Section::new(SectionKind::EhFrame, bytes, Address(0), Arch::Amd64);
        let mut builder = Builder::new(Arch::Amd64, options).unwrap();
        builder.push_all(crate::cfi::Functions::new(&section), |omitted| panic!("{omitted:?}"));
        builder
    }

    fn options() -> impl Iterator<Item = Options> {
        let versions = [Version::V2, Version::V3].into_iter();
        versions.flat_map(|version| {
            [true, false].map(|share| Options::new().with_version(version).with_share(share))
        })
    }

    /// After a builder has refused a shard, it works as if it had never seen the shard.
    #[cfg(target_pointer_width = "64")]
    #[test]
    fn a_shard_that_there_is_no_room_for() {
        let bytes = section();
        for options in options() {
            let shard = filled(&bytes, options);
            let mut builder = Builder::new(Arch::Amd64, options).unwrap();
            let len = shard.draft.entries.blocks.block(0).len();
            builder.draft.entries.blocks.end += u32::MAX as usize - len;
            assert_eq!(builder.absorb(shard.clone(), &Serial), Err(Reason::SectionSize));
            builder.draft.entries.blocks.end -= u32::MAX as usize - len;
            let mut other = Builder::new(Arch::Amd64, options).unwrap();
            other.absorb(builder, &Serial).unwrap();
            other.absorb(shard.clone(), &Serial).unwrap();
            let [absorbed, pushed] =
                [other, shard].map(|it| it.finish().into_bytes(Address(0), Key::address));
            assert_eq!(absorbed, pushed, "{options:?}");
        }
    }

    /// Functions before, between and after shards share blocks with them, and keep their order.
    #[test]
    fn functions_between_shards() {
        let bytes = section();
        let push = |builder: &mut Builder<'static>, bytes: &'static [u8]| {
            let section = Section::new(SectionKind::EhFrame, bytes, Address(0x10_0000), Arch::Amd64);
            builder.push_all(crate::cfi::Functions::new(&section), |omitted| panic!("{omitted:?}"));
        };
        let bytes: &'static [u8] = bytes.leak();
        for options in options() {
            let [mut pushed, mut absorbed] = [0; 2].map(|_| Builder::new(Arch::Amd64, options).unwrap());
            for turn in 0..6 {
                push(&mut pushed, bytes);
                if turn % 3 == 0 {
                    push(&mut absorbed, bytes);
                } else {
                    let mut shard = absorbed.shard();
                    push(&mut shard, bytes);
                    absorbed.absorb(shard, &Serial).unwrap();
                }
            }
            absorbed.draft.flush();
            for Entries { list, blocks, .. } in [&pushed, &absorbed].map(|it| &it.draft.entries) {
                let places: BTreeSet<_> = list.iter().map(|entry| blocks.offset(entry.block)).collect();
                assert_eq!(places.len(), if options.share { 2 } else { 18 });
            }
            let [pushed, absorbed] =
                [pushed, absorbed].map(|it| it.finish().into_bytes(Address(0), Key::address));
            assert_eq!(absorbed, pushed, "{options:?}");
        }
    }

    /// A builder refuses shards of another version or architecture: the rows would mean something else there.
    #[test]
    fn a_shard_of_another_kind() {
        let bytes = section();
        for options in options() {
            let mut builder = filled(&bytes, options);
            let before = builder.clone().finish().into_bytes(Address(0), Key::address);
            let version = if options.version == Version::V3 { Version::V2 } else { Version::V3 };
            let other = filled(&bytes, Options { version, ..options });
            assert_eq!(builder.absorb(other, &Serial), Err(Reason::Version));
            assert_eq!(
                builder.absorb(Builder::new(Arch::Aarch64, options).unwrap(), &Serial),
                Err(Reason::Architecture)
            );
            assert_eq!(builder.finish().into_bytes(Address(0), Key::address), before);
        }
    }

    /// A builder that shares blocks finds equal blocks in a shard that does not share them.
    #[test]
    fn a_shard_that_shares_nothing() {
        let bytes = section();
        for options in options().filter(|options| options.share) {
            let [mut shared, apart] = [true, false].map(|share| filled(&bytes, Options { share, ..options }));
            let len = shared.draft.entries.blocks.len_in_bytes();
            shared.absorb(apart, &Serial).unwrap();
            shared.draft.flush();
            assert_eq!(
                (shared.draft.entries.list.len(), shared.draft.entries.blocks.len_in_bytes()),
                (6, len)
            );
        }
    }
}
