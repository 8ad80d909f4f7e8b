import HTTPTypes
import ChaparCore
import ChaparQueue
import ChaparTesting
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

@Suite("A blank device token over HTTP", .timeLimit(.minutes(1)))
struct APIBlankTokenTests {
    static let bodies: [(String, String)] = [
        ("/v1/devices/a", #"{"tokens":{"android-huawei":" "}}"#),
        ("/v1/devices/a", #"{"tokens":{"ios-apns":"\u00a0 "}}"#),
        ("/v1/devices/a", #"{"tokens":{"x-pager":{"token":"   "}}}"#),
    ]

    @Test("is refused by the registry, where no backend knows its service", arguments: bodies)
    func registry(path: String, body: String) async throws {
        let harness = APIHarness(backends: [])
        let reply = try await harness.send(.put, path, body)
        #expect(reply.status == 422 && reply.errors.allSatisfy { $0.hasSuffix("malformed_token") }, "\(reply.text)")
        let batch = #"{"devices":[{"id":"b",\#(body.dropFirst().dropLast())}]}"#
        let imported = try await harness.send(.post, "/v1/devices/batch", batch)
        #expect(imported.text.contains("malformed_token"), "\(imported.text)")
        #expect(try await harness.devices.device("b") == nil)
    }

    @Test("is no recipient")
    func recipient() async throws {
        let harness = APIHarness(backends: [.crm])
        let body = #"{"to":{"tokens":[{"token":" ","service":"x-pager"}]},"content":{"title":"x"}}"#
        let reply = try await harness.post(body)
        #expect(reply.errors == ["#/to/tokens/0/token malformed_token"], "\(reply.text)")
    }
}
