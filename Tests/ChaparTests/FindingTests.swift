import ChaparCore
import Testing

@testable import ChaparCommands

@Suite("Lists of found deliveries")
struct FindingTests {
    private func delivery(_ notification: String, _ index: Int64) -> JSONValue {
        ["notification": .string(notification), "delivery": .integer(index)]
    }

    @Test("The tenth delivery of a notification is newer than its ninth")
    func order() {
        let names = [("05B4Q29EM0000", 9), ("05B4Q29EM0000", 10), ("05B4Q293M0000", 29)] as [(String, Int64)]
        let sorted = names.map { delivery($0.0, $0.1) }.sorted { FoundPages.isNewer($0, than: $1) }
        #expect(sorted.map(FoundPages.name) == ["05B4Q29EM0000/10", "05B4Q29EM0000/9", "05B4Q293M0000/29"])
    }

    @Test("The time that is advised for --until leaves out nothing that was accepted at the last line's time")
    func until() throws {
        for text in ["2026-11-29T11:22:11.050Z", "2026-11-29T11:22:11.999Z", "2026-11-29T11:22:11.000Z"] {
            let advised = try #require(FoundPages.until(text))
            #expect(advised > text && advised < "2026-11-29T11:22:12.003Z", "\(advised)")
        }
        #expect(FoundPages.until("soon") == nil)
    }

    @Test("A delivery that is named without its index is refused: a notification may have several")
    func names() throws {
        let place = try DeadSelection.place("05B4PYE7E0000/1")
        #expect(place["delivery"] == 1 && place["notification"] == "05B4PYE7E0000")
        for text in ["05B4PYE7E0000", "05B4PYE7E0000/", "05B4PYE7E0000/x", "05B4PYE7E0000/-1", "05B4PYE7E0000/0/0", ""]
        {
            #expect(throws: CommandFailure.self, "\(text)") { try DeadSelection.place(text) }
        }
    }
}
