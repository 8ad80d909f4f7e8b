import Foundation
import ChaparComposition
import ChaparCore
import ChaparQueue
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

/// Whether `docs/States.md` shows the tables that the code goes by.
///
/// A table stands between `<!-- table NAME -->` and `<!-- end -->`. With CHAPAR_WRITE_DOCS in the environment the test
/// writes what belongs there instead of comparing.
@Suite("The documented tables of states")
struct StateTablesDocumentTests {
    static let file = URL(filePath: #filePath).appending(path: "../../../../docs/States.md").standardizedFileURL

    /// The diagrams and tables by their names in the document.
    static let tables: [String: String] = [
        "DeliveryState": shown(DeliveryState.transitions),
        "OutboxEntryState": shown(OutboxEntryState.transitions),
        "BreakerStatus": shown(Breaker.transitions),
        "FlowStatus": shown(FlowGate.transitions),
    ]

    private static func shown<State, Event>(_ table: StateTable<State, Event>) -> String {
        "\n" + table.diagram + "\n" + table.markdown + "\n"
    }

    @Test("The document shows each table as the code has it, and no other")
    func documented() throws {
        var text = try String(contentsOf: Self.file, encoding: .utf8)
        let parts = text.matches(of: /<!-- table (\w+) -->\n((?s).*?)<!-- end -->/)
        #expect(Set(parts.map { String($0.1) }) == Set(Self.tables.keys))
        guard ProcessInfo.processInfo.environment["CHAPAR_WRITE_DOCS"] == nil else {
            for part in parts.reversed() {
                text.replaceSubrange(part.2.startIndex..<part.2.endIndex, with: Self.tables[String(part.1)] ?? "")
            }
            return try text.write(to: Self.file, atomically: true, encoding: .utf8)
        }
        for part in parts {
            #expect(String(part.2) == Self.tables[String(part.1)], "CHAPAR_WRITE_DOCS=1 writes \(part.1) anew")
        }
    }

    @Test("A delivery is final exactly where nothing but receipts move it", arguments: DeliveryState.allCases)
    func final(state: DeliveryState) {
        let table = DeliveryState.transitions
        let moving = DeliveryEvent.allCases.filter { table.allows($0, in: state) }
        #expect(state.isFinal == moving.allSatisfy { $0 == .receipt })
    }

    @Test("Every state can be reached, and every event happens")
    func reachable() {
        for state in DeliveryState.allCases {
            #expect(DeliveryState.transitions.leads(from: .scheduled, to: state), "\(state)")
        }
        for state in OutboxEntryState.allCases where state != .blocked {
            #expect(OutboxEntryState.transitions.leads(from: .due, to: state), "\(state)")
        }
        for event in DeliveryEvent.allCases where event != .enqueue {
            #expect(DeliveryState.allCases.contains { DeliveryState.transitions.allows(event, in: $0) }, "\(event)")
        }
    }
}
