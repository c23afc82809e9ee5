//! What a host tells about itself (AdminService.Describe): no session is opened, no thread started, and nothing is left
//! behind.

use crate::connection::channel::{describe, open_channel, root_cause};
use crate::connection::connect;
use crate::connection::leaks::Ignored;
use crate::connection::security::{self, authorize};
use crate::error::{OpenError, OpenReason};
use crate::generated_farlane_v1::admin_service_client::AdminServiceClient;
use crate::generated_farlane_v1::DescribeRequest;
use crate::{Config, DescribeReply};
use std::sync::Arc;
use std::time::Instant;

/// Asks the host, on the calling thread.
///
/// # Errors
/// It cannot be reached, does not answer within `connect_timeout`, or is no Farlane host.
pub fn describe_host(config: &Config) -> Result<DescribeReply, OpenError> {
    let _ignored = Ignored::begin();
    let endpoint = &config.endpoint;
    let deadline = Instant::now() + config.connect_timeout;
    let broken = |why: String| {
        OpenError::new(
            OpenReason::Protocol,
            format!("{endpoint} does not answer as a Farlane host ({why}): check FARLANE_HOST"),
        )
    };
    let credentials = security::credentials(config)?;
    let socket = connect::connect(endpoint, deadline)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| OpenError::new(OpenReason::Local, format!("cannot set up the connection: {error}")))?;
    let asked = async {
        let stream = security::secure(endpoint, socket, credentials.tls.as_ref(), Arc::default()).await?;
        let channel = open_channel(endpoint, stream).await.map_err(|error| broken(root_cause(&error)))?;
        let request = authorize(DescribeRequest {}, credentials.token.as_ref());
        let answer = AdminServiceClient::new(channel).describe(request).await;
        answer.map(tonic::Response::into_inner).map_err(|status| match status.code() {
            tonic::Code::Unauthenticated => OpenError::new(
                OpenReason::Refused,
                format!("the host at {endpoint} refused the guest: {}", describe(&status)),
            ),
            _ => broken(describe(&status)),
        })
    };
    let answer = runtime
        .block_on(async { tokio::time::timeout(deadline.saturating_duration_since(Instant::now()), asked).await });
    answer.unwrap_or_else(|_| {
        let seconds = config.connect_timeout.as_secs_f64();
        Err(OpenError::new(
            OpenReason::Timeout,
            format!("no answer from {endpoint} within {seconds} s: raise FARLANE_TIMEOUT"),
        ))
    })
}
