import ChaparCore

/// Copies everything from one store to another and verifies the result: for `chapar store copy`.
///
/// Each page is one transaction, which also records the progress, so that a copy that was killed continues there.
/// Memory is bounded by a page. At the end every record of both stores is read once more, and counts and checksums are
/// compared.
package struct StoreCopy: Sendable {
    /// The progress of a copy.
    package struct Progress: Sendable {
        package var records: Int
        /// From 0 to 1, relative to the count at the beginning.
        package var fraction: Double
    }

    /// The number of records of a kind in a store, and a checksum that does not depend on their order.
    package struct Sum: Sendable, Hashable {
        package var count = 0
        package var checksum: UInt64 = 0

        package mutating func add(_ record: CopyRecord) {
            count += 1
            checksum &+= Self.hash(record)
        }

        private static func hash(_ record: CopyRecord) -> UInt64 {
            var hash = StableHash()
            for value in record {
                switch value {
                case .null: hash.add(0)
                case .integer(let number): add(1, number, &hash)
                case .text(let text): add(2, Array(text.utf8), &hash)
                case .bytes(let bytes): add(3, bytes, &hash)
                case .list(let list):
                    add(4, Int64(list.count), &hash)
                    for bytes in list { add(3, bytes, &hash) }
                }
            }
            // A sum needs well-mixed bits (MurmurHash3's last step).
            var value = hash.value
            value = (value ^ value >> 33) &* 0xFF51_AFD7_ED55_8CCD
            value = (value ^ value >> 33) &* 0xC4CE_B9FE_1A85_EC53
            return value ^ value >> 33
        }

        private static func add(_ type: UInt8, _ number: Int64, _ hash: inout StableHash) {
            hash.add(type)
            for shift in stride(from: 0, to: 64, by: 8) { hash.add(UInt8(truncatingIfNeeded: number >> shift)) }
        }

        private static func add(_ type: UInt8, _ bytes: [UInt8], _ hash: inout StableHash) {
            add(type, Int64(bytes.count), &hash)
            hash.add(bytes)
        }
    }

    package var source: any CopyStore
    package var target: any CopyStore
    /// The most records in a transaction.
    package var pageSize = 1_000
    /// The number of pages after which it stops as if cancelled; for tests.
    package var maximumPages: Int?

    package init(from source: any CopyStore, to target: any CopyStore) {
        (self.source, self.target) = (source, target)
    }

    /// Copies, or continues an earlier copy, and verifies.
    ///
    /// - Returns: The number of records of each kind.
    /// - Throws: ``CopyRefusal`` when the target is not empty or a difference was found, which names the kind;
    ///   `StoreError` when a gateway uses a store or it cannot be read; `CancellationError` when the task was
    ///   cancelled. After the latter two it can be continued later.
    package func run(_ progress: (Progress) -> Void = { _ in }) async throws -> [(kind: CopyKind, count: Int)] {
        guard source.name != target.name else { throw CopyRefusal("a store cannot be copied to itself") }
        try await source.requireUnused()
        try await target.requireUnused()
        var work = Work(total: 0, done: 0)
        for kind in CopyKind.allCases { work.total += 3 * (try await source.count(kind)) }
        let header = try await source.header()
        var mark = try await begin()
        var pages = 0
        while let kind = mark.kind {
            var after = mark.after
            repeat {
                try Task.checkCancellation()
                if let maximumPages, pages >= maximumPages { throw CancellationError() }
                pages += 1
                let page = try await source.page(kind, after: after, limit: pageSize)
                after = page.next
                mark = CopyMark(source: source.name, kind: page.next == nil ? kind.next : kind, after: page.next)
                try await target.write(kind, page.records, mark)
                work.add(page.records.count, progress)
            } while after != nil
        }
        try await source.requireUnused()
        try await target.requireUnused()
        try await target.finish(header, mark)
        let counts = try await verify(&work, progress)
        try await verify(header)
        try await target.release()
        return counts
    }

    /// Compares both stores: the number of records of each kind, and one checksum over them.
    package func verify() async throws -> [(kind: CopyKind, count: Int)] {
        var work = Work(total: 0, done: 0)
        return try await verify(&work, { _ in })
    }

    private func verify(_ header: CopyHeader) async throws {
        let copied = try await target.header()
        let values = [
            ("the number of the last event", header.lastEvent, copied.lastEvent),
            ("the lead of the wall clock", header.ahead, copied.ahead),
        ]
        for (value, wanted, found) in values where wanted != found {
            throw Self.difference("\(value) is \(wanted) in \(source.name) and \(found) in \(target.name)")
        }
    }

    private func begin() async throws -> CopyMark {
        if let mark = try await target.mark() {
            guard mark.source == source.name else {
                throw CopyRefusal("\(target.name) holds an unfinished copy of \(mark.source), not of \(source.name)")
            }
            return mark
        }
        for kind in CopyKind.allCases {
            guard try await target.count(kind) == 0 else {
                throw CopyRefusal("\(target.name) is not empty, it has \(kind.rawValue): name an empty store")
            }
        }
        return CopyMark(source: source.name, kind: CopyKind.allCases.first)
    }

    private func verify(
        _ work: inout Work,
        _ progress: (Progress) -> Void
    ) async throws -> [(kind: CopyKind, count: Int)] {
        var counts: [(kind: CopyKind, count: Int)] = []
        for kind in CopyKind.allCases {
            let (wanted, found) = (
                try await sum(kind, source, &work, progress), try await sum(kind, target, &work, progress)
            )
            guard wanted == found else {
                let kinds = "\(wanted.count) in \(source.name), \(found.count) in \(target.name)"
                throw Self.difference(
                    "\(kind.rawValue): \(kinds)\(wanted.count == found.count ? ", of other content" : "")"
                )
            }
            counts.append((kind, wanted.count))
        }
        return counts
    }

    private func sum(
        _ kind: CopyKind,
        _ store: any CopyStore,
        _ work: inout Work,
        _ progress: (Progress) -> Void
    ) async throws -> Sum {
        var sum = Sum()
        var after: [CopyValue]?
        repeat {
            try Task.checkCancellation()
            let page = try await store.page(kind, after: after, limit: pageSize)
            for record in page.records { sum.add(record) }
            work.add(page.records.count, progress)
            after = page.next
        } while after != nil
        return sum
    }

    private static func difference(_ sentence: String) -> CopyRefusal {
        CopyRefusal("the copy differs from its source, do not use it: \(sentence). Empty the target and copy again")
    }

    private struct Work {
        var total: Int
        var done: Int

        mutating func add(_ records: Int, _ progress: (Progress) -> Void) {
            done += records
            progress(Progress(records: done, fraction: min(1, Double(done) / Double(max(1, total)))))
        }
    }
}

extension CopyKind {
    /// The kind that is copied next; nil after the last.
    fileprivate var next: CopyKind? {
        let all = Self.allCases
        guard let place = all.firstIndex(of: self), place + 1 < all.count else { return nil }
        return all[place + 1]
    }
}
