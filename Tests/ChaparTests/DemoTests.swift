import Foundation
import PushCore
import Testing

@Suite("The demonstration", .timeLimit(.minutes(2)))
struct DemoTests {
    @Test("The demonstration ends with the expected outcomes and exit code 0")
    func demo() async throws {
        let result = try await Program.run(["demo", "--once", "--json"], within: .seconds(90))
        #expect(result.status == 0, "\(result.output)\(result.errors)")
        let endings = try result.lines.map { try JSONValue(parsing: Array($0.utf8)) }
        #expect(endings.count >= (Platforms.missing.isEmpty ? 12 : 1))
        #expect(
            result.errors.contains("Left out") == !Platforms.missing.subtracting(["http", "release_notes"]).isEmpty
        )
        #expect(endings.allSatisfy { $0["expected"]?.boolValue == true })
    }
}
