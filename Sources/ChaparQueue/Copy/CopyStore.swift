package import ChaparCore

/// The reason why a copy is not made or is wrong; repeating the command has the same result.
package struct CopyRefusal: Error, CustomStringConvertible {
    package let description: String

    package init(_ description: String) { self.description = description }
}

/// A store that is copied from or to, while no gateway uses it.
package protocol CopyStore: Sendable {
    /// The name in messages, by which an unfinished copy also identifies its source.
    var name: String { get }

    /// Checks that no gateway uses it.
    ///
    /// - Throws: `StoreError.failed` with the name of the user.
    func requireUnused() async throws(StoreError)

    /// Returns the values that the store has only once.
    func header() async throws(StoreError) -> CopyHeader

    /// Returns the approximate number of records of a kind, as known without reading them; 0 only when there are none.
    func count(_ kind: CopyKind) async throws(StoreError) -> Int

    /// Returns about `limit` of the next records of a kind, in the order of their keys.
    func page(_ kind: CopyKind, after: [CopyValue]?, limit: Int) async throws(StoreError) -> CopyPage

    /// Returns the progress of an unfinished copy into this store; nil when there is none.
    func mark() async throws(StoreError) -> CopyMark?

    /// Adds records and the mark in one transaction.
    func write(_ kind: CopyKind, _ records: [CopyRecord], _ mark: CopyMark) async throws(StoreError)

    /// Writes the header after all records, and completes what depends on the records.
    func finish(_ header: CopyHeader, _ mark: CopyMark) async throws(StoreError)

    /// Removes the mark, so that the store can be used.
    func release() async throws(StoreError)

    /// Closes the store.
    func close() async
}

/// The progress of a copy, stored in its target as a small value.
package struct CopyMark: Sendable, Hashable {
    /// The name of the small value.
    package static let name = "store.copy"

    /// The source's name.
    package var source: String
    /// The kind that is being copied; nil when all are complete.
    package var kind: CopyKind?
    /// The last key that was copied.
    package var after: [CopyValue]?

    package init(source: String, kind: CopyKind?, after: [CopyValue]? = nil) {
        (self.source, self.kind, self.after) = (source, kind, after)
    }

    /// The stored form.
    package var stored: [UInt8] {
        let after = (after ?? []).map { (value: CopyValue) -> JSONValue in
            switch value {
            case .integer(let number): .integer(number)
            case .text(let text): .string(text)
            default: .null
            }
        }
        return Array(
            JSONValue.object([
                "source": .string(source), "kind": kind.map { .string($0.rawValue) } ?? .null, "after": .array(after),
            ]).text.utf8
        )
    }

    /// Reads the stored form; nil when it is malformed.
    package init?(stored: [UInt8]) {
        guard let object = (try? JSONValue(parsing: stored))?.objectValue, case .string(let source)? = object["source"]
        else { return nil }
        self.source = source
        if case .string(let name)? = object["kind"] {
            guard let kind = CopyKind(rawValue: name) else { return nil }
            self.kind = kind
        }
        guard case .array(let values)? = object["after"], !values.isEmpty else { return }
        after = values.map { (value: JSONValue) -> CopyValue in
            switch value {
            case .integer(let number): .integer(number)
            case .string(let text): .text(text)
            default: .null
            }
        }
    }

    /// Returns the error of a gateway that opens a store with a mark.
    package static func refusal(_ store: String) -> StoreError {
        .failed(
            "\(store) holds an unfinished copy: finish it with `chapar store copy`, or remove it and begin with an empty store"
        )
    }
}
