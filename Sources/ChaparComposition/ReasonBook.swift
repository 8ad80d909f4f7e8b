package import ChaparCore

/// The explanations of reasons, by the reasons' names, for the answers about a delivery's last attempt.
///
/// A gateway has one book, with the reasons of the platforms that its program knows.
package struct ReasonBook: Sendable {
    /// The reasons of the gateway itself and of the way to any platform.
    package static let ofGateway = ReasonBook([])

    private let guides: [String: [ReasonGuide]]

    /// Makes a book of a program's platforms.
    package init(_ platforms: [BackendFactory]) {
        guides = Dictionary(grouping: ReasonGuide.all(platforms), by: \.reason)
    }

    /// Returns the guide to a reason of a kind of backend; without one that of the way to it or of the gateway.
    package func guide(to reason: String, of kind: String?) -> ReasonGuide? {
        guard let known = guides[reason] else { return nil }
        let sources = [kind, "http-transport", "gateway"].compactMap(\.self)
        return sources.lazy.compactMap { source in known.first { $0.source == source } }.first
            ?? (known.count == 1 ? known[0] : nil)
    }
}
