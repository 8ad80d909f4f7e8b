internal import ChaparDelivery
package import ChaparCore

/// The mistakes of a notification, collected while it is read, so that the caller sees all at once.
///
/// Only the first ``shown`` are kept: ten thousand bad tokens must not produce an answer of megabytes.
package struct RequestIssues: Sendable {
    /// The most mistakes of one notification that an answer lists.
    static let shown = 100
    /// The most mistakes of all notifications of a batch that an answer lists; beyond it, one for each notification.
    static let shownInBatch = 1000

    /// The most of its mistakes that are listed.
    private let shown: Int
    /// The list in the body that has the notification, and its index; nil when the body is the notification.
    private let position: (list: StaticString, index: Int)?
    /// The first mistakes, in the order they were found.
    package private(set) var list: [Finding] = []
    /// The number of all mistakes, listed or not.
    private(set) var count = 0
    /// A scope that the notification needs and the API key lacks.
    private(set) var missingScope: GatewayConfiguration.APIKey.Scope?

    package init() {
        position = nil
        shown = Self.shown
    }

    /// - Parameters:
    ///   - list: The list in the body that has the notification.
    ///   - index: Its index there.
    ///   - listed: The number of listed mistakes of the notifications before it.
    init(in list: StaticString, at index: Int, after listed: Int) {
        position = (list, index)
        shown = max(1, min(Self.shown, Self.shownInBatch - listed))
    }

    /// The JSON pointer of the notification in the body: `#`, or `#/notifications/3` in a batch.
    ///
    /// Computed only when there is a mistake to report, which is rare.
    var base: String { position.map { "#/\($0.list)/\($0.index)" } ?? "#" }

    /// Whether there is no mistake.
    package var isEmpty: Bool { count == 0 }

    /// Adds a mistake.
    ///
    /// The pointer starts with `#` and is relative to the notification.
    package mutating func add(_ pointer: String, _ code: String, _ detail: @autoclosure () -> String) {
        count += 1
        guard list.count < shown else { return }
        list.append(Finding(pointer: base + pointer.dropFirst(), code: code, detail: detail()))
    }

    /// Adds that the API key lacks the scope for the value at a pointer.
    mutating func add(_ pointer: String, lacking scope: GatewayConfiguration.APIKey.Scope) {
        missingScope = scope
        add(pointer, "scope_missing", "The API key lacks the scope \"\(scope.rawValue)\".")
    }

    /// Turns a finding about the notification into one about the body.
    func whole(_ warning: Finding) -> Finding {
        var warning = warning
        warning.pointer = base + warning.pointer.dropFirst()
        return warning
    }

    /// Adds a backend's finding as a mistake.
    mutating func add(_ warning: Finding) { add(warning.pointer, warning.code, warning.detail) }
}

/// Returns a name as a step of a JSON pointer (RFC 6901, section 3), cut to 64 scalars.
///
/// It counts scalars, since a single character may be as long as the body.
func pointerStep(_ name: String) -> String { String(name.unicodeScalars.prefix(64)).jsonPointerStep }
