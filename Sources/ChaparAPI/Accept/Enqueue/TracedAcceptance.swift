internal import ChaparCore
internal import ChaparDelivery
package import ChaparQueue
internal import Foundation
package import HTTPTypes

/// The acceptance of notifications of a sampled trace, until it is recorded as spans.
///
/// Made when a request is checked; a request whose trace is not sampled has none.
final class TracedAcceptance: Sendable {
    private let name: String
    private let context: TraceContext
    private let notifications: [(id: NotificationID, recipients: Int)]
    private let link: TraceContext?
    private let start: Date

    /// Starts spans with a name for notifications of a trace; nil unless the trace is sampled and spans are sent.
    ///
    /// `link` is the trace of the request; nil when that is the notifications' own.
    init?(
        _ name: String,
        _ context: TraceContext?,
        _ notifications: @autoclosure () -> [(id: NotificationID, recipients: Int)],
        link: TraceContext? = nil,
        _ state: GatewayState
    ) {
        guard let context, context.isSampled, state.tracing.isOn else { return nil }
        self.name = name
        self.context = context
        self.notifications = notifications()
        self.link = link
        start = state.time.now
    }

    /// Records a span for each notification, once they are on disk.
    func record(_ state: GatewayState) {
        let end = state.time.now
        for (id, recipients) in notifications {
            state.tracing.record(
                TraceSpan(
                    name,
                    .server,
                    in: context,
                    id: context.span(of: id),
                    parent: context.parent,
                    from: start,
                    to: end,
                    [
                        ("messaging.system", .text("chapar")), ("messaging.operation.type", .text("create")),
                        ("chapar.notification", .text(id.description)),
                        ("chapar.recipients", .number(Int64(clamping: recipients))),
                    ],
                    link: link
                )
            )
        }
    }
}

extension TraceContext {
    /// Reads the trace that a request names; nil without one, and for fields that are not valid.
    package init?(_ fields: HTTPFields) {
        let parents = fields[values: .traceparent]
        guard parents.count == 1 else { return nil }
        let states = fields[values: .tracestate]
        self.init(traceparent: parents[0], tracestate: states.isEmpty ? nil : states.joined(separator: ","))
    }
}

extension HTTPField.Name {
    /// `traceparent`; the name is valid.
    fileprivate static let traceparent = Self("traceparent") ?? .server
    /// `tracestate`; the name is valid.
    fileprivate static let tracestate = Self("tracestate") ?? .server
}
