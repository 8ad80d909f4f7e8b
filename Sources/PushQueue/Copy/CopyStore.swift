package import PushCore

/// Why a copy is not made or not good: the same command comes to the same.
package struct CopyRefusal: Error, CustomStringConvertible {
    package let description: String

    package init(_ description: String) { self.description = description }
}

/// A store that is copied from or to; no gateway uses it meanwhile.
package protocol CopyStore: Sendable {
    /// What it is called in messages; also by what an unfinished copy knows its source.
    var name: String { get }

    /// Makes sure that no gateway uses it.
    ///
    /// - Throws: `StoreError.failed`, which names who does.
    func requireUnused() async throws(StoreError)

    /// What it has once.
    func header() async throws(StoreError) -> CopyHeader

    /// About how many records of a kind there are, as far as it is known without reading them; 0 only when there are
    /// none.
    func count(_ kind: CopyKind) async throws(StoreError) -> Int

    /// The next records of a kind in the order of their keys: about `limit`.
    func page(_ kind: CopyKind, after: [CopyValue]?, limit: Int) async throws(StoreError) -> CopyPage

    /// How far a copy into this store came; nil when there is no unfinished one.
    func mark() async throws(StoreError) -> CopyMark?

    /// Adds records and the mark in one transaction.
    func write(_ kind: CopyKind, _ records: [CopyRecord], _ mark: CopyMark) async throws(StoreError)

    /// Takes over what a store has once, after all records, and sees to what records lead to.
    func finish(_ header: CopyHeader, _ mark: CopyMark) async throws(StoreError)

    /// Removes the mark: the store can be used.
    func release() async throws(StoreError)

    /// Gives the store up.
    func close() async
}

/// How far a copy came, kept in its target as a small value.
package struct CopyMark: Sendable, Hashable {
    /// The name of the small value.
    package static let name = "store.copy"

    /// The source's name.
    package var source: String
    /// What is being copied; nil when everything is there.
    package var kind: CopyKind?
    /// The last key that is there.
    package var after: [CopyValue]?

    package init(source: String, kind: CopyKind?, after: [CopyValue]? = nil) {
        (self.source, self.kind, self.after) = (source, kind, after)
    }

    /// As it is kept.
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

    /// Reads what was kept; nil when it cannot be read.
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

    /// Why a gateway may not use a store that has a mark.
    package static func refusal(_ store: String) -> StoreError {
        .failed(
            "\(store) holds an unfinished copy: finish it with `chapar store copy`, or remove it and begin with an empty store"
        )
    }
}
