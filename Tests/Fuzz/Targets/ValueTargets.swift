import Foundation
import ChaparCore
import ChaparQueue
import ChaparStoreSQLite
import ChaparTesting

extension FuzzTarget {
    /// JSON text: a value survives being written and read, and skipping accepts what reading accepts.
    static let json = FuzzTarget("json") { bytes in
        guard let value = try? JSONValue(parsing: bytes) else { return }
        let written = value.bytes
        try require(String(validating: written, as: UTF8.self) != nil, "what is written is UTF-8")
        let again = try JSONValue(parsing: written)
        try require(again == value, "a value that was written and read is the same")
        try require(again.bytes == written, "it is written the same again")
        try JSONScanner.scan(bytes) { (scanner) throws(JSONSyntaxError) in try scanner.skip() }
        // A second reader, to which no text must be foreign that the first takes. It refuses numbers beyond a Double.
        guard !String(decoding: bytes, as: UTF8.self).contains(where: { $0 == "e" || $0 == "E" }) else { return }
        try require(
            (try? JSONSerialization.jsonObject(with: Data(written), options: .fragmentsAllowed)) != nil,
            "what is written is JSON to others"
        )
    }

    /// Cursors and ids of the API: every number survives, so does every text but for its case, and a store bears all of
    /// them.
    static let cursor = FuzzTarget.prepared("cursor") { body in
        let folder = FileManager.default.temporaryDirectory.appending(path: "chapar-fuzz-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let options = SQLiteStoreOptions(path: folder.appending(path: "store.db").path)
        let store = try SQLiteStore(options, logger: .silent)
        do {
            try await body { bytes in
                try readCursor(bytes)
                let number = bytes.prefix(8).reduce(Int64(0)) { $0 << 8 | Int64($1) }
                try await look(for: number, in: store)
                if let id = NotificationID(String(decoding: bytes, as: UTF8.self)) {
                    try await look(for: id.rawValue, in: store)
                }
            }
        } catch {
            await store.close()
            throw error
        }
        await store.close()
    }

    /// Asks a store that is empty for what has a number.
    private static func look(for number: Int64, in store: SQLiteStore) async throws {
        let id = NotificationID(rawValue: number)
        try require(try await store.notification(id) == nil, "nothing has the number \(number)")
        try require(try await store.deliveries(of: id, after: number, limit: 3).isEmpty, "it has no deliveries")
        try require(try await store.cancel(id) { _, _ in [] } == nil, "it cannot be cancelled")
        try require(try await store.events(after: number, limit: 3, wait: .zero).isEmpty, "it has no events")
        _ = try await store.list(DeviceQuery(), after: DeviceCursor(rawValue: number), limit: 3)
        let receipt = ReceiptEntry(ReceiptAddress(delivery: number), state: .opened, logEntry: [49]) { _ in [1] }
        if case .recorded = try await store.record([receipt])[0] {
            throw Violation("a receipt finds the number \(number)")
        }
    }

    private static func readCursor(_ bytes: [UInt8]) throws {
        let number = bytes.prefix(8).reduce(Int64(0)) { $0 << 8 | Int64($1) } & .max
        let id = NotificationID(rawValue: number)
        try require(NotificationID(id.description) == id, "an id that was written and read is the same")
        try require(id.description.utf8.count == 13, "an id has 13 characters")
        let cursor = DeviceCursor(rawValue: number)
        try require(DeviceCursor(cursor.description) == cursor, "a cursor that was written and read is the same")
        let text = String(decoding: bytes, as: UTF8.self)
        guard let read = DeviceCursor(text) else { return }
        try require((0...NotificationID.highest).contains(read.rawValue), "a cursor is a number that an id can have")
        try require(read.description == text.uppercased(), "a cursor is written as it was read")
        try require(NotificationID(text)?.rawValue == read.rawValue, "cursors have the form of ids")
    }

    /// Times of day: RFC 3339 in what callers write, HTTP dates in what platforms answer.
    static let time = FuzzTarget("time") { bytes in
        let text = String(decoding: bytes, as: UTF8.self)
        if let time = RFC3339.parse(text) {
            let again = RFC3339.parse(RFC3339.string(time))
            try require(again.map { abs($0.timeIntervalSince(time)) < 0.001 } == true, "a time survives: \(text)")
        }
        if let time = HTTPDate.parse(text) {
            try require(HTTPDate.parse(HTTPDate.text(time)) == time, "an HTTP date survives: \(text)")
        }
    }
}
