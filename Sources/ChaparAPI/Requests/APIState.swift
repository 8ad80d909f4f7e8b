package import Logging
package import ChaparDelivery
internal import ChaparCore
package import Synchronization

/// The state that the endpoints share beside ``GatewayState``: the records of requests, the usage of API keys, the
/// dashboard's link, and the erasures of users.
///
/// Made by ``GatewayAPI``. A configuration is put in force through it, since that may end the dashboard's link.
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
    private let gateway: GatewayState

    package init(_ gateway: GatewayState, logger: Logger) {
        self.gateway = gateway
        let configuration = gateway.snapshot.configuration
        audit = configuration.audit.map { AuditLog($0, clock: gateway.clock, logger: logger) }
        access = configuration.accessLog.map { AccessLog($0, clock: gateway.clock, logger: logger) }
    }

    /// Puts another configuration in force.
    package func replace(_ snapshot: GatewaySnapshot) {
        // Otherwise they would be valid again when a later configuration has no keys.
        if !snapshot.configuration.apiKeys.contains(where: \.isFirst) { dashboard.end() }
        gateway.replace(snapshot)
    }
}
