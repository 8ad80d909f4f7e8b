import ChaparCore
import Testing

@Suite("Words of a platform's block", .timeLimit(.minutes(1)))
struct PlatformWordsTests {
    private static let words = PlatformWords(["urgency": ["HIGH", "NORMAL"], "shown/look/style": ["Big", "small"]])

    static let blocks: [(JSONObject, JSONObject)] = [
        ([:], [:]), (["urgency": "high"], ["urgency": "HIGH"]), (["urgency": "HIGH"], ["urgency": "HIGH"]),
        (["urgency": "hihg"], ["urgency": "hihg"]), (["urgency": 5], ["urgency": 5]),
        (["shown": ["look": ["style": "BIG", "x": "BIG"]]], ["shown": ["look": ["style": "Big", "x": "BIG"]]]),
        (["shown": "BIG"], ["shown": "BIG"]), (["shown": ["look": nil]], ["shown": ["look": nil]]),
        (["style": "big", "shown": [:]], ["style": "big", "shown": [:]]),
    ]

    @Test("A known word becomes the platform's own, anything else stays", arguments: blocks)
    func folds(block: JSONObject, folded: JSONObject) { #expect(Self.words.folded(block) == folded) }
}
