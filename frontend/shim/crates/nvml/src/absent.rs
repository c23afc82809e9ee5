//! What these devices do not have. NVML's answer is "not supported", after the device was checked.

use crate::answer::{enter, Code, NOT_SUPPORTED};
use crate::state::{device, Handle};

/// Defines functions whose first argument is a device; the others, which C passes in registers, are not looked at.
macro_rules! absent {
    ($($name:ident)*) => {
        $(
            #[no_mangle]
            pub extern "C" fn $name(handle: Handle) -> Code {
                enter(|| device(handle).and(Err(NOT_SUPPORTED)))
            }
        )*
    };
}

absent! {
    nvmlDeviceGetSerial
    nvmlDeviceGetBoardPartNumber
    nvmlDeviceGetBoardId
    nvmlDeviceGetVbiosVersion
    nvmlDeviceGetInforomImageVersion
    nvmlDeviceGetInforomVersion
    nvmlDeviceGetTemperature
    nvmlDeviceGetTemperatureV
    nvmlDeviceGetTemperatureThreshold
    nvmlDeviceGetFanSpeed
    nvmlDeviceGetFanSpeed_v2
    nvmlDeviceGetNumFans
    nvmlDeviceGetPowerUsage
    nvmlDeviceGetPowerState
    nvmlDeviceGetPowerManagementMode
    nvmlDeviceGetPowerManagementLimit
    nvmlDeviceGetPowerManagementDefaultLimit
    nvmlDeviceGetPowerManagementLimitConstraints
    nvmlDeviceGetEnforcedPowerLimit
    nvmlDeviceGetTotalEnergyConsumption
    nvmlDeviceGetPerformanceState
    nvmlDeviceGetClockInfo
    nvmlDeviceGetClock
    nvmlDeviceGetApplicationsClock
    nvmlDeviceGetDefaultApplicationsClock
    nvmlDeviceGetMaxCustomerBoostClock
    nvmlDeviceGetSupportedMemoryClocks
    nvmlDeviceGetSupportedGraphicsClocks
    nvmlDeviceGetCurrentClocksEventReasons
    nvmlDeviceGetCurrentClocksThrottleReasons
    nvmlDeviceGetSupportedClocksEventReasons
    nvmlDeviceGetSupportedClocksThrottleReasons
    nvmlDeviceGetEccMode
    nvmlDeviceGetDefaultEccMode
    nvmlDeviceGetTotalEccErrors
    nvmlDeviceGetMemoryErrorCounter
    nvmlDeviceGetRetiredPages
    nvmlDeviceGetRemappedRows
    nvmlDeviceGetBAR1MemoryInfo
    nvmlDeviceGetMigMode
    nvmlDeviceGetMigDeviceHandleByIndex
    nvmlDeviceGetGpuInstanceId
    nvmlDeviceGetComputeInstanceId
    nvmlDeviceGetAttributes_v2
    nvmlDeviceGetDeviceHandleFromMigDeviceHandle
    nvmlDeviceGetVirtualizationMode
    nvmlDeviceGetEncoderUtilization
    nvmlDeviceGetDecoderUtilization
    nvmlDeviceGetProcessUtilization
    nvmlDeviceGetAccountingMode
    nvmlDeviceGetSamples
    nvmlDeviceGetCurrPcieLinkGeneration
    nvmlDeviceGetMaxPcieLinkGeneration
    nvmlDeviceGetCurrPcieLinkWidth
    nvmlDeviceGetMaxPcieLinkWidth
    nvmlDeviceGetPcieThroughput
    nvmlDeviceGetPcieReplayCounter
    nvmlDeviceGetNvLinkState
    nvmlDeviceGetNvLinkVersion
    nvmlDeviceGetNvLinkCapability
    nvmlDeviceGetNvLinkRemotePciInfo_v2
    nvmlDeviceGetTopologyCommonAncestor
    nvmlDeviceGetP2PStatus
    nvmlDeviceGetCpuAffinity
    nvmlDeviceGetMemoryAffinity
    nvmlDeviceGetNumaNodeId
    nvmlDeviceGetFieldValues
    nvmlDeviceSetPersistenceMode
    nvmlDeviceSetComputeMode
    nvmlDeviceSetPowerManagementLimit
    nvmlDeviceSetGpuLockedClocks
    nvmlDeviceResetGpuLockedClocks
}
