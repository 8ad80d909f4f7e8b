import ChaparCore
import ChaparTesting
import Testing

/// A running gateway for a plugin's tests: `GatewayProcess` of `ChaparTesting`.
@Suite("A gateway for the tests of a plugin", .timeLimit(.minutes(2)))
struct GatewayProcessTests {
    @Test("It takes every method of the API")
    func methods() async throws {
        let own: JSONObject = [
            "kind": "http", "url": "http://127.0.0.1:9/send", "secret": "twenty-four bytes or more",
            "services": ["android-firebase"],
        ]
        try await GatewayProcess.run("chapar", backends: ["own": own]) { gateway in
            let made = try await gateway.put("/v1/devices/d-1", ["user": "ada", "tokens": ["android-firebase": "t1"]])
            #expect(made.status == 201, "\(made.json.text)")
            let changed = try await gateway.patch("/v1/devices/d-1", ["locale": "fa"])
            #expect(changed.status == 200 && changed.json["locale"]?.stringValue == "fa", "\(changed.json.text)")
            #expect(try await gateway.get("/v1/devices/d-1").json["user"]?.stringValue == "ada")
            #expect(try await gateway.delete("/v1/devices/d-1").status == 204)
            #expect(try await gateway.post("/v1/notifications", ["content": ["body": "Hello"]]).status == 422)
        }
    }
}
