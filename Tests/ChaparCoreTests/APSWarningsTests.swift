import ChaparCore
import Testing

/// Payloads that Apple accepts and iOS drops: the sender sees a success, the user nothing.
@Suite("Values of aps that iOS drops", .timeLimit(.minutes(1)))
struct APSWarningsTests {
    static let values: [(JSONObject, [String])] = [
        (["mutable-content": true], ["#/aps/mutable-content ignored_by_ios"]),
        (["content-available": "1"], ["#/aps/content-available ignored_by_ios"]),
        (["content_available": 1], ["#/aps/content_available ignored_by_ios"]),
        (["thread_id": "a"], ["#/aps/thread_id ignored_by_ios"]),
        (["timestamp": 1_700_000_000_000], ["#/aps/timestamp milliseconds"]),
        (["stale-date": 1_700_000_000_000], ["#/aps/stale-date milliseconds"]),
        (["dismissal-date": 1_700_000_000_000], ["#/aps/dismissal-date milliseconds"]),
        (["mutable-content": 1, "content-available": 1, "timestamp": 1_700_000_000, "thread-id": "a"], []),
        (["alert": ""], ["#/aps/alert empty_text"]),
        (["alert": ["title": "", "body": ""]], ["#/aps/alert empty_text"]),
        (["alert": ["title": "", "loc-key": "a"]], []), (["alert": ["title": "a", "body": ""]], []),
        (["alert": "a"], []),
        (["my_key": 1], []),
    ]

    @Test("are warned of by their place", arguments: values)
    func dropped(aps: JSONObject, expected: [String]) {
        #expect(APSWarnings.of(.object(aps), at: "#/aps").map { "\($0.pointer) \($0.code)" } == expected)
    }

    @Test("are none where there is no aps")
    func none() {
        #expect(APSWarnings.of(nil, at: "#/aps").isEmpty && APSWarnings.of("x", at: "#/aps").isEmpty)
    }
}
