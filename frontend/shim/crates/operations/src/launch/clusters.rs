//! Clusters of a launch: which it has, whether it may, and how the tape says so.
//!
//! Pure, but for what the caller has found out about the device. A cluster has its shape from the launch or from the
//! kernel, which was compiled for one (`__cluster_dims__`); from both only where they agree.
//!
//! Source: CUDA programming guide, "Thread Block Clusters"; CUDA runtime API, cudaLaunchKernelExC; tape.md, "Clusters".

use session::call::{Error, Outcome};

/// Blocks that a cluster may have on every device that has clusters.
pub const PORTABLE: u32 = 8;
/// Blocks that it may have when the program asked for more (cudaFuncAttributeNonPortableClusterSizeAllowed).
pub const MOST: u32 = 16;

/// What a kernel says of its clusters.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bounds {
    pub required: Option<[u32; 3]>,
    pub most_blocks: Option<u32>,
    pub explicit: bool,
    pub non_portable: bool,
}

impl Bounds {
    /// The most blocks of a cluster.
    pub fn most(&self) -> u32 {
        let most = if self.non_portable { MOST } else { PORTABLE };
        self.most_blocks.map_or(most, |blocks| blocks.min(most))
    }

    /// The cluster that a launch has which asks for this one.
    ///
    /// # Errors
    /// cudaErrorInvalidClusterSize: none, where the kernel has to have one, another than it was compiled for, or one
    /// too large.
    pub fn cluster(&self, asked: Option<[u32; 3]>) -> Outcome<Option<[u32; 3]>> {
        if self.required.is_some() && asked.is_some() && self.required != asked {
            return Err(Error::INVALID_CLUSTER_SIZE);
        }
        match self.required.or(asked) {
            None if self.explicit => Err(Error::INVALID_CLUSTER_SIZE),
            None => Ok(None),
            Some(cluster) => match blocks(cluster) {
                Some(count) if count <= self.most() => Ok(Some(cluster)),
                _ => Err(Error::INVALID_CLUSTER_SIZE),
            },
        }
    }

    /// Checks a launch.
    ///
    /// # Errors
    /// As above, and when the grid is not made of such clusters.
    pub fn check(&self, asked: Option<[u32; 3]>, grid: [u32; 3]) -> Outcome {
        let Some(cluster) = self.cluster(asked)? else { return Ok(()) };
        if grid.iter().zip(cluster).any(|(extent, part)| extent % part != 0) {
            return Err(Error::INVALID_CLUSTER_SIZE);
        }
        Ok(())
    }
}

/// How many blocks there are in a cluster; `None`: none, or no number.
pub fn blocks(cluster: [u32; 3]) -> Option<u32> {
    let count = cluster.iter().try_fold(1u32, |product, extent| product.checked_mul(*extent))?;
    (count > 0).then_some(count)
}

/// The record's number for what a launch asks for, which was checked.
pub fn number(asked: Option<[u32; 3]>) -> u16 {
    asked.map_or(0, |[x, y, z]| 0x1000 | ((z - 1) << 8 | (y - 1) << 4 | (x - 1)) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFUSED: Outcome = Err(Error::INVALID_CLUSTER_SIZE);

    #[test]
    fn what_a_launch_may_have() {
        let free = Bounds::default();
        assert_eq!(free.check(None, [3, 1, 1]), Ok(()));
        assert_eq!(free.check(Some([1, 1, 1]), [3, 1, 1]), Ok(()));
        assert_eq!(free.check(Some([2, 2, 2]), [4, 2, 6]), Ok(()));
        assert_eq!(free.check(Some([2, 2, 2]), [4, 3, 6]), REFUSED);
        for cluster in [[9, 1, 1], [0, 1, 1], [1 << 16, 1 << 16, 1]] {
            assert_eq!(free.check(Some(cluster), [cluster[0] * 2, 1 << 16, 1]), REFUSED, "{cluster:?}");
        }
        let larger = Bounds { non_portable: true, ..free };
        assert_eq!(larger.check(Some([16, 1, 1]), [32, 1, 1]), Ok(()));
        assert_eq!(larger.check(Some([17, 1, 1]), [34, 1, 1]), REFUSED);
        assert_eq!(Bounds { most_blocks: Some(4), ..larger }.check(Some([8, 1, 1]), [8, 1, 1]), REFUSED);
    }

    #[test]
    fn what_a_kernel_was_compiled_for() {
        let fixed = Bounds { required: Some([2, 1, 1]), explicit: true, ..Bounds::default() };
        assert_eq!(fixed.cluster(None), Ok(Some([2, 1, 1])));
        assert_eq!(fixed.check(Some([2, 1, 1]), [4, 1, 1]), Ok(()));
        assert_eq!(fixed.check(Some([4, 1, 1]), [4, 1, 1]), REFUSED);
        assert_eq!(fixed.check(None, [3, 1, 1]), REFUSED);
        let needs = Bounds { explicit: true, ..Bounds::default() };
        assert_eq!(needs.check(None, [4, 1, 1]), REFUSED);
        assert_eq!(needs.check(Some([1, 1, 1]), [4, 1, 1]), Ok(()));
    }

    #[test]
    fn the_number_on_the_tape() {
        assert_eq!(number(None), 0);
        assert_eq!(number(Some([1, 1, 1])), 0x1000);
        assert_eq!(number(Some([4, 2, 1])), 0x1013);
        assert_eq!(number(Some([1, 1, 16])), 0x1f00);
    }
}
