internal import PushCore

/// Collects every mistake of a notification while it is read, so that the caller learns of all at once.
///
/// Only the first ``shown`` are kept: ten thousand bad tokens must not become an answer of megabytes.
struct RequestIssues: Sendable {
    /// How many mistakes of one notification are listed in an answer.
    static let shown = 100
    /// How many mistakes of all notifications of a batch are listed; beyond, one of each.
    static let shownInBatch = 1000

    /// How many of its mistakes are listed.
    private let shown: Int
    /// The list of the body that the notification stands in, and where; nil when it is the body.
    private let position: (list: StaticString, index: Int)?
    /// The first mistakes, in the order they were found.
    private(set) var list: [Finding] = []
    /// All mistakes, those that are not listed included.
    private(set) var count = 0
    /// A scope that the API key lacks for what the notification asks for.
    private(set) var missingScope: GatewayConfiguration.APIKey.Scope?

    init() {
        position = nil
        shown = Self.shown
    }

    /// - Parameters:
    ///   - list: The list of the body that the notification stands in.
    ///   - index: Its place there.
    ///   - listed: How many mistakes of those before it are listed.
    init(in list: StaticString, at index: Int, after listed: Int) {
        position = (list, index)
        shown = max(1, min(Self.shown, Self.shownInBatch - listed))
    }

    /// The place of the notification in the body: `#`, or `#/notifications/3` in a batch.
    ///
    /// Made when there is something to say, which is rare.
    var base: String { position.map { "#/\($0.list)/\($0.index)" } ?? "#" }

    /// Whether nothing is wrong.
    var isEmpty: Bool { count == 0 }

    /// Adds a mistake.
    ///
    /// The pointer begins with `#` and is taken from the notification.
    mutating func add(_ pointer: String, _ code: String, _ detail: @autoclosure () -> String) {
        count += 1
        guard list.count < shown else { return }
        list.append(Finding(pointer: base + pointer.dropFirst(), code: code, detail: detail()))
    }

    /// Adds that the API key may not do what stands at a pointer.
    mutating func add(_ pointer: String, lacking scope: GatewayConfiguration.APIKey.Scope) {
        missingScope = scope
        add(pointer, "scope_missing", "The API key lacks the scope \"\(scope.rawValue)\".")
    }

    /// A finding about the notification as one about the body.
    func whole(_ warning: Finding) -> Finding {
        var warning = warning
        warning.pointer = base + warning.pointer.dropFirst()
        return warning
    }

    /// Adds what a backend found.
    mutating func add(_ warning: Finding) { add(warning.pointer, warning.code, warning.detail) }
}

/// A name as a step of a JSON pointer (RFC 6901, section 3), cut when a caller made it absurdly long.
///
/// By scalars: one character may have as many as the body can hold.
func pointerStep(_ name: String) -> String { String(name.unicodeScalars.prefix(64)).jsonPointerStep }
