import Foundation
import ChaparCore
import ChaparSimulator
import Testing

@testable import ChaparAPNsSimulator

/// A request that APNs accepts, with everything the rules need to say so; tests spoil one thing at a time.
struct RuleBench {
    static let token = String(repeating: "5c", count: 32)
    static let topic = "com.example.courier"
    static let now = Date(timeIntervalSince1970: 1_790_000_000)
    static let key = APNsSigningKey()

    var method = "POST"
    var path = "/3/device/" + token
    var headers: [(String, String)] = []
    var body = Array(#"{"aps":{"alert":"Out for delivery"}}"#.utf8)
    var options = APNsRuleOptions()
    var environment = APNsEnvironment.production
    var connection = APNsConnectionState()
    var state = APNsState(seed: 1, inboxLimit: 100)
    var now = RuleBench.now

    init() throws {
        state.register(Self.key.registration)
        state.devices[.production] = [Self.token: APNsDevice(topic: Self.topic)]
        headers = [
            ("authorization", "bearer " + (try Self.key.providerToken(issuedAt: now))), ("apns-topic", Self.topic),
            ("apns-push-type", "alert"), ("apns-id", "0d9f3c52-7f5e-4a0f-9b53-0c3a2e6b1f77"),
        ]
    }

    /// Sets a header field, or removes it.
    mutating func set(_ name: String, _ value: String?) {
        headers.removeAll { $0.0 == name }
        if let value { headers.append((name, value)) }
    }

    mutating func authorize(_ key: APNsSigningKey, age: TimeInterval = 0) throws {
        set("authorization", "bearer " + (try key.providerToken(issuedAt: now.addingTimeInterval(-age))))
    }

    mutating func authorize(header: String, claims: String) throws {
        set("authorization", "bearer " + (try Self.key.providerToken(header: header, claims: claims)))
    }

    /// Returns the refusal of the rules; nil when they accept.
    mutating func verdict() -> APNsRefusal? {
        let rules = APNsRules(environment: environment, options: options)
        let request = APNsRequest(
            method: method,
            path: path,
            headers: headers.map { HTTPHeader($0.0, $0.1) },
            body: body
        )
        do throws(APNsRefusal) {
            _ = try rules.check(request, now: now, connection: &connection, state: &state)
            return nil
        } catch {
            return error
        }
    }
}

/// One way to spoil, or not to spoil, a request, and what APNs says to it.
struct RuleCase: Sendable, CustomTestStringConvertible {
    let name: String
    let reason: String?
    let spoil: @Sendable (inout RuleBench) throws -> Void

    init(_ name: String, _ reason: String?, _ spoil: @escaping @Sendable (inout RuleBench) throws -> Void) {
        self.name = name
        self.reason = reason
        self.spoil = spoil
    }

    var testDescription: String { "\(name): \(reason ?? "accepted")" }
}
