//! Structures that know their own layout, so that a test can hold it against a C compiler's (`tests/unit/codegen`).

/// Size and fields of a structure, as a C compiler would tell them.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    pub name: &'static str,
    pub size: usize,
    /// (name, offset); a trailing underscore of a name is not C's.
    pub fields: &'static [(&'static str, usize)],
}

/// Declares a `repr(C)` structure with its `LAYOUT`.
macro_rules! c_struct {
    ($(#[$meta:meta])* pub struct $name:ident { $(pub $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        #[repr(C)]
        pub struct $name {
            $(pub $field: $type,)*
        }

        impl $name {
            pub const LAYOUT: $crate::layout::Layout = $crate::layout::Layout {
                name: stringify!($name),
                size: size_of::<$name>(),
                fields: &[$((stringify!($field), std::mem::offset_of!($name, $field))),*],
            };
        }
    };
}

/// Every structure that crosses the boundary.
pub static LAYOUTS: &[Layout] = &[
    crate::cudaAccessPolicyWindow::LAYOUT,
    crate::cudaChannelFormatDesc::LAYOUT,
    crate::cudaDeviceProp_v12::LAYOUT,
    crate::cudaDeviceProp_v13::LAYOUT,
    crate::cudaExtent::LAYOUT,
    crate::cudaFuncAttributes::LAYOUT,
    crate::cudaGraphEdgeData::LAYOUT,
    crate::cudaGraphExecUpdateResultInfo::LAYOUT,
    crate::cudaGraphInstantiateParams::LAYOUT,
    crate::cudaGraphNodeParams::LAYOUT,
    crate::cudaHostNodeParams::LAYOUT,
    crate::cudaKernelNodeParams::LAYOUT,
    crate::cudaLaunchAttribute::LAYOUT,
    crate::cudaLaunchConfig_t::LAYOUT,
    crate::cudaMemAccessDesc::LAYOUT,
    crate::cudaMemAllocNodeParams::LAYOUT,
    crate::cudaMemLocation::LAYOUT,
    crate::cudaMemPoolProps::LAYOUT,
    crate::cudaMemcpyAttributes::LAYOUT,
    crate::cudaMemcpy3DBatchOp::LAYOUT,
    crate::cudaMemcpy3DOperand::LAYOUT,
    crate::cudaMemcpy3DParms::LAYOUT,
    crate::cudaMemcpy3DPeerParms::LAYOUT,
    crate::cudaMemsetParams::LAYOUT,
    crate::cudaPitchedPtr::LAYOUT,
    crate::cudaPointerAttributes::LAYOUT,
    crate::cudaPos::LAYOUT,
    crate::cudaTextureDesc::LAYOUT,
    crate::cudaUUID_t::LAYOUT,
    crate::dim3::LAYOUT,
    crate::uint3::LAYOUT,
    crate::driver::CUDA_BATCH_MEM_OP_NODE_PARAMS::LAYOUT,
    crate::driver::CUDA_ARRAY3D_DESCRIPTOR::LAYOUT,
    crate::driver::CUDA_ARRAY_DESCRIPTOR::LAYOUT,
    crate::driver::CUDA_MEMCPY2D::LAYOUT,
    crate::driver::CUDA_MEMCPY3D_PEER::LAYOUT,
    crate::driver::CUDA_RESOURCE_VIEW_DESC::LAYOUT,
    crate::driver::CUDA_TEXTURE_DESC::LAYOUT,
    crate::driver::CUctxCreateParams::LAYOUT,
    crate::driver::CUdevprop::LAYOUT,
    crate::driver::CUexecAffinityParam::LAYOUT,
    crate::driver::CUlaunchConfig::LAYOUT,
    crate::driver::CUDA_KERNEL_NODE_PARAMS::LAYOUT,
    crate::driver::CUDA_MEMCPY3D::LAYOUT,
    crate::driver::CUDA_MEMCPY_NODE_PARAMS::LAYOUT,
    Layout { name: "CUDA_RESOURCE_DESC", size: size_of::<crate::driver::CUDA_RESOURCE_DESC>(), fields: &[] },
    Layout { name: "cudaLaunchAttributeValue", size: size_of::<crate::cudaLaunchAttributeValue>(), fields: &[] },
    Layout {
        name: "CUstreamBatchMemOpParams",
        size: size_of::<crate::driver::CUstreamBatchMemOpParams>(),
        fields: &[],
    },
];
