import Foundation
import ChaparCore
import ChaparGateway
import ChaparSandbox

/// A scenario of the demonstration: the requests, and the end that is expected.
///
/// `chapar demo` runs each through the API of its own gateway before simulated platforms, and compares. A scenario is
/// data: ``DemoRunner`` sends the requests.
struct DemoScenario: Sendable {
    /// Its name.
    var name: String
    /// A summary in a few words.
    var summary: String
    /// The platforms that take part in it.
    var kinds: [BackendKind] = ["apns"]
    /// The requests to the API, in order; only the outcome of the last one counts.
    var steps: [Step]
    /// The expected end.
    var expected: Expectation
    /// The faults of the platform meanwhile.
    var faults: [FaultRule] = []
    /// The route that the gateway's configuration has for it.
    var route: GatewayConfiguration.Route?
    /// Whether its faults would reach other scenarios, so that it runs after them.
    var isDisruptive = false

    /// A request of a scenario.
    enum Step: Sendable {
        /// Send a notification.
        case send(JSONValue)
        /// Register a device, as an app's server would.
        case register(device: String, JSONValue)
        /// Wait until the outbox has no entry of a device left.
        case await(device: String)
        /// Subscribe a device at a backend; the result is a status of the scenario.
        case subscribe(device: String, backend: String)
        /// Log a user in on a device; the backend's answer is a status of the scenario.
        case logIn(String, device: String, backend: String)
        /// Send the last request again under the same idempotency key.
        case repeatLast
        /// Cancel the last one.
        case cancelLast
        /// Wait until the platform has taken the last one, then tap it on the device: the app reports that to a
        /// backend.
        case click(backend: String, device: String)
        /// Look at the first notification of the scenario from now on.
        case lookAtFirst
    }

    /// The expected end of a scenario.
    enum Expectation: Sendable {
        /// Every recipient ends in this state, after this number of attempts, the last one with this reason.
        case state(DeliveryState, reason: String? = nil, attempts: Int? = nil)
        /// Every recipient ends in this state, after attempts by these backends in order.
        case way(DeliveryState, [String])
        /// The statuses of the scenario are these.
        case statuses([String])
        /// The API refuses the request because of these fields.
        case refused(fields: [String])
    }

    /// Returns every scenario, also those of platforms that a program lacks; `now` is when they run.
    static func all(now: Date) -> [DemoScenario] { apple(now: now) + otherPlatforms + altcraft }

    /// Returns the scenarios that need only iPhones.
    private static func apple(now: Date) -> [DemoScenario] {
        let tomorrow = RFC3339.string(now.addingTimeInterval(86400))
        let soon = RFC3339.string(now.addingTimeInterval(2))
        let many = (0..<500).map { token("\(String($0, radix: 16, uppercase: false))e", of: "ab") }
        return [
            DemoScenario(
                name: "alert",
                summary: "a title in two languages, sound, badge, data",
                steps: [
                    .send(
                        request(
                            to: [token("1")],
                            content: [
                                "title": ["default": "Order 42", "fa": "سفارش ۴۲"], "body": "is on its way",
                                "sound": "default", "badge": 1, "data": ["order": "42"],
                            ],
                            options: ["ttl": 3600, "priority": "high"]
                        )
                    )
                ],
                expected: .state(.acceptedByPlatform, attempts: 1)
            ),
            DemoScenario(
                name: "silent",
                summary: "wakes the app, shows nothing",
                steps: [
                    .send(
                        request(
                            to: [token("2")],
                            content: ["data": ["sync": true]],
                            options: ["silent": true, "priority": "normal"]
                        )
                    )
                ],
                expected: .state(.acceptedByPlatform, attempts: 1)
            ),
            DemoScenario(
                name: "many",
                summary: "one message to 500 devices",
                steps: [.send(request(to: many, content: ["title": "Sale", "body": "until midnight"]))],
                expected: .state(.acceptedByPlatform, attempts: 1)
            ),
            DemoScenario(
                name: "scheduled",
                summary: "waits in the store, goes out two seconds later",
                steps: [.send(request(to: [token("3")], content: hello, options: ["send_at": .string(soon)]))],
                expected: .state(.acceptedByPlatform, attempts: 1)
            ),
            DemoScenario(
                name: "collapsed",
                summary: "a newer message replaces one that still waits",
                steps: [
                    .send(
                        request(
                            to: [token("4")],
                            content: ["body": "2:1"],
                            options: ["collapse_id": "score", "send_at": .string(tomorrow), "ttl": 172_800]
                        )
                    ),
                    .send(request(to: [token("4")], content: ["body": "3:1"], options: ["collapse_id": "score"])),
                    .lookAtFirst,
                ],
                expected: .state(.cancelled)
            ),
            DemoScenario(
                name: "cancelled",
                summary: "called back before it went out",
                steps: [
                    .send(
                        request(
                            to: [token("5")],
                            content: hello,
                            options: ["send_at": .string(tomorrow), "ttl": 172_800]
                        )
                    ),
                    .cancelLast,
                ],
                expected: .state(.cancelled)
            ),
            DemoScenario(
                name: "repeated",
                summary: "the same Idempotency-Key twice sends once",
                steps: [.send(request(to: [token("6")], content: hello)), .repeatLast],
                expected: .state(.acceptedByPlatform, attempts: 1)
            ),
            DemoScenario(
                name: "dead token",
                summary: "the app was removed: 410, never tried again",
                steps: [.send(request(to: [token("7", of: "0410")], content: hello))],
                expected: .state(.failed, reason: "Unregistered", attempts: 1)
            ),
            DemoScenario(
                name: "bad token",
                summary: "not a token of this app: 400, never tried again",
                steps: [.send(request(to: [token("8", of: "bad0")], content: hello))],
                expected: .state(.failed, reason: "BadDeviceToken", attempts: 1)
            ),
            DemoScenario(
                name: "too many",
                summary: "429 with Retry-After: 1 at first, then taken",
                steps: [.send(request(to: [token("9", of: "f429")], content: hello))],
                expected: .state(.acceptedByPlatform, attempts: 2),
                faults: [
                    FaultRule(
                        match: FaultMatch(tokenPrefix: "f429", count: 1),
                        .answer(FaultAnswer(429, "TooManyRequests", retryAfter: 1))
                    )
                ]
            ),
            DemoScenario(
                name: "outage",
                summary: "503 at first, retried, then taken",
                steps: [.send(request(to: [token("a", of: "0503")], content: hello))],
                expected: .state(.acceptedByPlatform, attempts: 2)
            ),
            DemoScenario(
                name: "no answer",
                summary: "the connection breaks after Apple took it: sent again, shown once",
                steps: [.send(request(to: [token("d", of: "fade")], content: hello))],
                expected: .state(.acceptedByPlatform, attempts: 2),
                faults: [
                    FaultRule(at: .processed, match: FaultMatch(tokenPrefix: "fade", count: 1), .end(.reset))
                ],
                isDisruptive: true
            ),
            DemoScenario(
                name: "typing error",
                summary: "an unknown field and a wrong value: 422, both named",
                steps: [
                    .send(request(to: [token("b")], content: ["titel": "Hi", "badge": "one", "body": "x"]))
                ],
                expected: .refused(fields: ["#/content/titel", "#/content/badge"])
            ),
            DemoScenario(
                name: "too large",
                summary: "over the platform's 4096 bytes: 422 before anything is accepted",
                steps: [
                    .send(request(to: [token("c")], content: ["body": .string(String(repeating: "x", count: 5000))]))
                ],
                expected: .refused(fields: [])
            ),
        ]
    }

    static let hello: JSONObject = ["title": "Hello", "body": "from Chapar"]

    static func token(_ number: String, of prefix: String = "ab") -> String {
        prefix + String(repeating: "0", count: 64 - prefix.count - number.count) + number
    }

    static func request(
        to tokens: [String],
        of service: String = "ios-apns",
        content: JSONObject,
        options: JSONObject = [:]
    ) -> JSONValue {
        let recipients = tokens.map { JSONValue.object(["token": .string($0), "service": .string(service)]) }
        return request(["tokens": .array(recipients)], content, options)
    }

    static func request(
        _ audience: JSONObject,
        _ content: JSONObject,
        _ options: JSONObject = [:],
        backend: String? = nil
    ) -> JSONValue {
        var request: JSONObject = ["to": .object(audience), "content": .object(content)]
        if let backend { request["backend"] = .string(backend) }
        if !options.isEmpty { request["options"] = .object(options) }
        return .object(request)
    }
}
