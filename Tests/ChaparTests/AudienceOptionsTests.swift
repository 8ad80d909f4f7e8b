import ArgumentParser
import ChaparCore
import Testing

@testable import ChaparCommands

@Suite("Who gets a message, by flags")
struct AudienceOptionsTests {
    /// A command with the flags: completions that ask a gateway need one.
    private struct Line: AsyncParsableCommand {
        @OptionGroup var options: AudienceOptions
    }

    private static func options(_ arguments: [String]) async throws -> AudienceOptions {
        try await Line.asyncParse(arguments).options
    }

    private static func json(_ arguments: [String], throughGateway: Bool = true) async throws -> JSONValue? {
        try await options(arguments).json(throughGateway: throughGateway)
    }

    @Test("Each flag is the member of `to` that it names")
    func forms() async throws {
        #expect(try await Self.json(["--to", "ios-apns:aa"]) == ["tokens": [["token": "aa", "service": "ios-apns"]]])
        #expect(try await Self.json(["--token", "ios-apns:aa"]) == (try await Self.json(["--to", "ios-apns:aa"])))
        #expect(try await Self.json(["--tag", "vip", "--tag", "pro"]) == ["tags": ["any": ["vip", "pro"]]])
        #expect(try await Self.json(["--device", "a", "--device", "b"]) == ["devices": ["a", "b"]])
        #expect(try await Self.json(["--user", "ali"]) == ["users": ["ali"]])
        #expect(try await Self.json(["--activity", "order-42"]) == ["activity": "order-42"])
        #expect(try await Self.json(["--topic", "news"], throughGateway: false) == ["topic": "news"])
        #expect(try await Self.json(["--platform-id", "x=="], throughGateway: false) == ["platform_ids": ["x=="]])
        #expect(try await Self.json([]) == nil)
    }

    @Test("Flags of an audience are a member of their own, or one rule together")
    func audiences() async throws {
        #expect(try await Self.json(["--segment", "readers"]) == ["segment": "readers"])
        #expect(try await Self.json(["--everyone"]) == ["everyone": true])
        #expect(try await Self.json(["--platform", "ios"]) == ["audience": ["platform": "ios"]])
        let both = ["--tag", "vip", "--tag", "pro", "--platform", "android"]
        let rule: JSONValue = ["all": [["any": [["tag": "vip"], ["tag": "pro"]]], ["platform": "android"]]]
        #expect(try await Self.json(both) == ["audience": rule])
        await #expect(throws: ValidationError.self) { try await Self.json(["--everyone", "--tag", "vip"]) }
        await #expect(throws: ValidationError.self) {
            try await Self.json(["--segment", "readers"], throughGateway: false)
        }
        #expect(try await Self.options(["--tag", "vip"]).isAudience(backend: nil))
        #expect(try await !Self.options(["--tag", "vip"]).isAudience(backend: "crm"))
    }

    @Test("The devices of a test are a member of their own, and a flag that only audiences have")
    func testDevices() throws {
        let flags = try CampaignFlags.parse(["--name", "spring", "--test-device", "a", "--test-device", "b"])
        #expect(try flags.members == ["name": "spring", "test": ["devices": ["a", "b"]]])
        #expect(try CampaignFlags.parse(["--test-device", "a"]).given == "--test-device")
    }

    @Test("Two of them, or one that needs a gateway without one, are a mistake of the command line")
    func mistakes() async {
        await #expect(throws: ValidationError.self) { try await Self.json(["--topic", "a", "--device", "b"]) }
        for flag in ["--device", "--user", "--activity"] {
            await #expect(throws: ValidationError.self) { try await Self.json([flag, "a"], throughGateway: false) }
        }
    }
}
