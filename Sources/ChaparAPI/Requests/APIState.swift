package import Logging
package import ChaparDelivery
internal import ChaparCore
package import Synchronization

/// The state that the endpoints share beside ``GatewayState``: the records of requests, the usage of API keys, the
/// dashboard's link, and the erasures of users.
///
/// Made by ``GatewayAPI``.
package final class APIState: Sendable {
    /// The audit log; nil when there is none.
    package let audit: AuditLog?
    /// The access log; nil when it is not configured.
    package let access: AccessLog?
    /// The usage of each API key.
    package let keyUses = KeyUses()
    /// The code in the dashboard's link, and the token that was given for it.
    package let dashboard = DashboardAccess()
    /// The erasures of users.
    package let erasures = UserErasures()
    /// Whether other machines reach the address that the gateway listens on; false before it listens.
    package let isExposed = Atomic<Bool>(false)

    package init(_ gateway: GatewayState, logger: Logger) {
        let configuration = gateway.snapshot.configuration
        audit = configuration.audit.map { AuditLog($0, clock: gateway.clock, logger: logger) }
        access = configuration.accessLog.map { AccessLog($0, clock: gateway.clock, logger: logger) }
        gateway.beforeReplacing { [dashboard] snapshot in
            // Otherwise its link and token would be valid again when a later configuration has no keys.
            if !snapshot.configuration.apiKeys.contains(where: \.isFirst) { dashboard.end() }
        }
    }
}
