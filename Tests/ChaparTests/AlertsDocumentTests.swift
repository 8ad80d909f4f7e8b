import ChaparCore
import ChaparQueue
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

/// The metrics that the pages name, and the queries of the table of alerts, are those of the code.
@Suite("The alerts of the documents", .timeLimit(.minutes(1)))
struct AlertsDocumentTests {
    private static let families = Dictionary(
        uniqueKeysWithValues: MetricFamily.all.flatMap(\.families).map { ($0.name, $0) }
    )

    /// The family of a name in a query; a histogram has three series.
    private static func family(_ name: Substring) -> MetricFamily? {
        let parent = String(name).replacing(#/_(bucket|sum|count)$/#, with: "")
        return families[String(name)] ?? families[parent].flatMap { $0.type == "histogram" ? $0 : nil }
    }

    @Test("Every metric that a page names exists")
    func names() throws {
        var count = 0
        for page in try Page.all() + Page.others() {
            for match in page.text.matches(of: #/\bchapar_[a-z_]+\b/#) {
                count += 1
                let name = match.output
                #expect(
                    ["chapar_id", "chapar_receipt"].contains(name) || Self.family(name) != nil,
                    "\(page.path): \(name)"
                )
            }
        }
        #expect(count > 50)
    }

    /// The queries of the table of alerts.
    private static func queries() throws -> [String] {
        let text = try Page("docs/Operations.md").text
        let section = try #require(text.split(separator: "## What to alert on").dropFirst().first)
        let rows = section.prefix(upTo: section.firstRange(of: "\n## ")?.lowerBound ?? section.endIndex)
            .split(separator: "\n").filter { $0.hasPrefix("|") }.dropFirst(2)
        return try rows.map { row in
            let query = try #require(row.firstMatch(of: #/^\| [^|]+ \| `([^`|]+)` \| /#), "\(row)")
            return String(query.output.1)
        }
    }

    /// The values that the gateway gives to labels.
    private static let values: [String: Set<String>] = [
        "outcome": ["accepted", "unknown", "token", "message", "account", "platform"],
        "state": Set(DeliveryState.allCases.filter(\.isFinal).map(\.rawValue)),
    ]

    @Test("Every alert asks for metrics and labels that there are, and compares")
    func alerts() throws {
        let queries = try Self.queries()
        #expect(queries.count >= 12)
        for query in queries {
            #expect(query.firstMatch(of: #/ (>|<|==|!=) [0-9.]+( \* [0-9]+)?$/#) != nil, "\(query)")
            for (open, close) in [("(", ")"), ("{", "}"), ("[", "]")] as [(Character, Character)] {
                #expect(query.count { $0 == open } == query.count { $0 == close }, "\(query)")
            }
            let names = query.matches(of: #/\b(chapar_[a-z_]+|up)\b(?:\{([^}]*)\})?/#)
            #expect(!names.isEmpty, "\(query)")
            var labels: Set<String> = []
            for name in names {
                guard name.output.1 != "up" else { continue }
                let family = try #require(Self.family(name.output.1), "\(query)")
                labels.formUnion(family.labels + (name.output.1.hasSuffix("_bucket") ? ["le"] : []))
                for pair in (name.output.2 ?? "").matches(of: #/(\w+)(=~|!~|!=|=)"([^"]*)"/#) {
                    let (label, value) = (String(pair.output.1), String(pair.output.3))
                    #expect(family.labels.contains(label), "\(query)")
                    let known = Self.values[label]
                    let pattern = try Regex(value)
                    #expect(known?.contains { $0.wholeMatch(of: pattern) != nil } ?? true, "\(query): \(value)")
                }
            }
            for group in query.matches(of: #/ by \(([^)]*)\)/#) {
                for label in group.output.1.split(separator: ", ") {
                    #expect(labels.contains(String(label)), "\(query)")
                }
            }
            // Shares are of the same labels on both sides, else they match nothing.
            let groups = query.matches(of: #/ by \(([^)]*)\)/#).map(\.output.1)
            #expect(Set(groups).count <= 1, "\(query)")
        }
    }
}
