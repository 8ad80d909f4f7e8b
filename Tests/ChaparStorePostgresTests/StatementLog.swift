import Foundation

@testable import ChaparStorePostgres

/// The work of a server for each statement, as its module auto_explain writes it into the server's log.
struct StatementLog {
    /// Settings of a server that writes it, and keeps the plan that it made first of each statement.
    static let settings = [
        "session_preload_libraries=auto_explain", "auto_explain.log_min_duration=0", "auto_explain.log_analyze=on",
        "auto_explain.log_timing=off", "auto_explain.log_buffers=on", "auto_explain.log_format=json", "autovacuum=off",
        "plan_cache_mode=force_generic_plan", "log_line_prefix=@@",
    ]

    struct Entry {
        let statement: String
        /// How many rows all steps of the plan read, made or threw away.
        let rows: Double
        /// How many pages they read.
        ///
        /// A scan of an index reads pages for entries that it passes over, which are no rows.
        let pages: Double
        let plan: String
    }

    private let path: String
    private var offset: UInt64 = 0

    init(of server: TestServer) async throws { path = try await server.folder() + "/log" }

    /// Passes over what was written up to now.
    mutating func skip() throws { _ = try read() }

    /// Returns the entries that were written since the last call.
    mutating func entries() throws -> [Entry] {
        try read().components(separatedBy: "@@").compactMap { text in
            guard let begin = text.range(of: "plan:\n") else { return nil }
            let json = Data(text[begin.upperBound...].utf8)
            guard let object = try JSONSerialization.jsonObject(with: json) as? [String: Any],
                let plan = object["Plan"] as? [String: Any]
            else { return nil }
            return Entry(
                statement: object["Query Text"] as? String ?? "",
                rows: Self.rows(plan),
                pages: Self.number(plan, "Shared Hit Blocks") + Self.number(plan, "Shared Read Blocks"),
                plan: Self.outline(plan, "")
            )
        }
    }

    private mutating func read() throws -> String {
        let file = try FileHandle(forReadingFrom: URL(fileURLWithPath: path))
        defer { try? file.close() }
        try file.seek(toOffset: offset)
        let data = try file.readToEnd() ?? Data()
        offset += UInt64(data.count)
        return String(decoding: data, as: UTF8.self)
    }

    private static func number(_ plan: [String: Any], _ key: String) -> Double {
        (plan[key] as? NSNumber)?.doubleValue ?? 0
    }

    private static func own(_ plan: [String: Any]) -> Double {
        let kinds = [
            "Actual Rows", "Rows Removed by Filter", "Rows Removed by Join Filter", "Rows Removed by Index Recheck",
        ]
        return kinds.map { number(plan, $0) }.reduce(0, +) * number(plan, "Actual Loops")
    }

    private static func parts(_ plan: [String: Any]) -> [[String: Any]] { plan["Plans"] as? [[String: Any]] ?? [] }

    private static func rows(_ plan: [String: Any]) -> Double { own(plan) + parts(plan).map(rows).reduce(0, +) }

    private static func outline(_ plan: [String: Any], _ indent: String) -> String {
        let names = ["Node Type", "Relation Name", "Index Name"].compactMap { plan[$0] as? String }
        return parts(plan).reduce("\(indent)\(names.joined(separator: " ")): \(Int(own(plan)))\n") {
            $0 + outline($1, indent + "  ")
        }
    }
}
