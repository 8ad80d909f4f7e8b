/// A reader of foreign bytes, tried with bytes that somebody else chose: for the fuzz binary, and for the test that
/// replays the corpora.
///
/// It must take any bytes, without ending the process, and throws where a property of the reader does not hold.
package struct FuzzTarget: Sendable {
    /// Reads one input.
    package typealias Read = @Sendable (_ bytes: [UInt8]) async throws -> Void

    /// Gets a reader that is ready, and uses it.
    package typealias Body = (_ read: @escaping Read) async throws -> Void

    /// The name for the fuzz binary's `--target`, and of the corpus' folder.
    package let name: String
    /// Makes ready what the reader needs, hands the reader over, and cleans up.
    package let use: @Sendable (_ body: Body) async throws -> Void

    /// Makes a target that needs nothing.
    init(_ name: String, _ read: @escaping Read) {
        self.name = name
        use = { body in try await body(read) }
    }

    private init(name: String, use: @escaping @Sendable (Body) async throws -> Void) {
        self.name = name
        self.use = use
    }

    /// Makes a target whose reader needs something, which `use` makes ready and cleans up.
    static func prepared(
        _ name: String,
        _ use: @escaping @Sendable (_ body: Body) async throws -> Void
    ) -> FuzzTarget {
        FuzzTarget(name: name, use: use)
    }

    /// All targets.
    package static let all: [FuzzTarget] =
        [.json, .cursor, .time, .configuration, .request, .lastEventID, .receipt, .click, .http1, .connect]
        + PlatformAnswers.targets
}

/// A property of a reader does not hold.
struct Violation: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}

/// Throws unless a property holds; `property` says what should.
func require(_ holds: Bool, _ property: @autoclosure () -> String) throws(Violation) {
    if !holds { throw Violation("not so: \(property())") }
}
