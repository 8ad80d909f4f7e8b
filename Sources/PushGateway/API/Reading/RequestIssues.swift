internal import PushCore

/// Collects every mistake of a notification while it is read, so that the caller learns of all at once.
///
/// Only the first ``shown`` are kept: ten thousand bad tokens must not become an answer of megabytes.
struct RequestIssues: Sendable {
    /// How many mistakes are listed in an answer.
    static let shown = 100

    /// The list of the body that the notification stands in, and where; nil when it is the body.
    private let place: (list: StaticString, index: Int)?
    /// The first mistakes, in the order they were found.
    private(set) var list: [PushWarning] = []
    /// All mistakes, those that are not listed included.
    private(set) var count = 0

    init() { place = nil }

    init(in list: StaticString, at index: Int) { place = (list, index) }

    /// The place of the notification in the body: `#`, or `#/notifications/3` in a batch.
    ///
    /// Made when there is something to say, which is rare.
    var base: String { place.map { "#/\($0.list)/\($0.index)" } ?? "#" }

    /// Whether nothing is wrong.
    var isEmpty: Bool { count == 0 }

    /// Adds a mistake.
    ///
    /// The pointer begins with `#` and is taken from the notification.
    mutating func add(_ pointer: String, _ code: String, _ detail: @autoclosure () -> String) {
        count += 1
        guard list.count < Self.shown else { return }
        list.append(PushWarning(pointer: base + pointer.dropFirst(), code: code, detail: detail()))
    }

    /// A finding about the notification as one about the body.
    func whole(_ warning: PushWarning) -> PushWarning {
        var warning = warning
        warning.pointer = base + warning.pointer.dropFirst()
        return warning
    }

    /// Adds what a backend found.
    mutating func add(_ warning: PushWarning) { add(warning.pointer, warning.code, warning.detail) }
}

/// A name as a step of a JSON pointer (RFC 6901, section 3), cut when a caller made it absurdly long.
func pointerStep(_ name: String) -> String {
    var step = ""
    for character in name.prefix(64) {
        switch character {
        case "~": step += "~0"
        case "/": step += "~1"
        default: step.append(character)
        }
    }
    return step
}
