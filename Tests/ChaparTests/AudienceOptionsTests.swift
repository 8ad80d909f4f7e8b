import ArgumentParser
import ChaparCore
import Testing

@testable import ChaparCommands

@Suite("Who gets a message, by flags")
struct AudienceOptionsTests {
    private static func json(_ arguments: [String], throughGateway: Bool = true) throws -> JSONValue? {
        try AudienceOptions.parse(arguments).json(throughGateway: throughGateway)
    }

    @Test("Each flag is the member of `to` that it names")
    func forms() throws {
        #expect(try Self.json(["--to", "ios-apns:aa"]) == ["tokens": [["token": "aa", "service": "ios-apns"]]])
        #expect(try Self.json(["--token", "ios-apns:aa"]) == (try Self.json(["--to", "ios-apns:aa"])))
        #expect(try Self.json(["--tag", "vip", "--tag", "pro"]) == ["tags": ["any": ["vip", "pro"]]])
        #expect(try Self.json(["--device", "a", "--device", "b"]) == ["devices": ["a", "b"]])
        #expect(try Self.json(["--user", "ali"]) == ["users": ["ali"]])
        #expect(try Self.json(["--activity", "order-42"]) == ["activity": "order-42"])
        #expect(try Self.json(["--topic", "news"], throughGateway: false) == ["topic": "news"])
        #expect(try Self.json(["--platform-id", "x=="], throughGateway: false) == ["platform_ids": ["x=="]])
        #expect(try Self.json([]) == nil)
    }

    @Test("Flags of an audience are a member of their own, or one rule together")
    func audiences() throws {
        #expect(try Self.json(["--segment", "readers"]) == ["segment": "readers"])
        #expect(try Self.json(["--everyone"]) == ["everyone": true])
        #expect(try Self.json(["--platform", "ios"]) == ["audience": ["platform": "ios"]])
        let both = ["--tag", "vip", "--tag", "pro", "--platform", "android"]
        let rule: JSONValue = ["all": [["any": [["tag": "vip"], ["tag": "pro"]]], ["platform": "android"]]]
        #expect(try Self.json(both) == ["audience": rule])
        #expect(throws: ValidationError.self) { try Self.json(["--everyone", "--tag", "vip"]) }
        #expect(throws: ValidationError.self) { try Self.json(["--segment", "readers"], throughGateway: false) }
        #expect(try AudienceOptions.parse(["--tag", "vip"]).isAudience(backend: nil))
        #expect(try !AudienceOptions.parse(["--tag", "vip"]).isAudience(backend: "crm"))
    }

    @Test("The devices of a test are a member of their own, and a flag that only audiences have")
    func testDevices() throws {
        let flags = try CampaignFlags.parse(["--name", "spring", "--test-device", "a", "--test-device", "b"])
        #expect(try flags.members == ["name": "spring", "test": ["devices": ["a", "b"]]])
        #expect(try CampaignFlags.parse(["--test-device", "a"]).given == "--test-device")
    }

    @Test("Two of them, or one that needs a gateway without one, are a mistake of the command line")
    func mistakes() {
        #expect(throws: ValidationError.self) { try Self.json(["--topic", "a", "--device", "b"]) }
        for flag in ["--device", "--user", "--activity"] {
            #expect(throws: ValidationError.self) { try Self.json([flag, "a"], throughGateway: false) }
        }
    }
}
