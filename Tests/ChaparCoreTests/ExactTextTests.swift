import ChaparCore
import Testing

@Suite("Texts that are compared byte for byte")
struct ExactTextTests {
    /// Two forms of one text: an é of one code point and one of two.
    private static let composed = "ren\u{e9}"
    private static let decomposed = "rene\u{301}"

    @Test("Forms of Unicode that are one text for String are two recipients")
    func recipients() {
        #expect(Self.composed == Self.decomposed)
        let makes: [(String) -> Recipient] = [
            { .token($0, service: .iOSAPNs) }, { .device($0) }, { .user($0) }, { .platformID($0) }, { .topic($0) },
        ]
        for make in makes {
            let (one, other) = (make(Self.composed), make(Self.decomposed))
            #expect(one != other)
            #expect(one == make(Self.composed))
            #expect(Set([one, other, make(Self.composed)]).count == 2)
        }
        #expect(Set(makes.map { $0("same") }).count == makes.count, "forms differ whatever the name")
        let services: [TokenService] = [.iOSAPNs, .iOSFirebase]
        #expect(Set(services.map { DeviceToken("t", service: $0) }).count == 2)
    }

    @Test("Many spellings of one text do not share a hash, which would make look-ups slow")
    func hashes() {
        // Marks above and below a letter may stand in any order: all of these are one text for String.
        let spellings = (0..<8).map { place in
            "a" + (0..<8).map { $0 == place ? "\u{323}" : "\u{301}" }.joined()
        }
        #expect(Set(spellings).count == 1)
        #expect(Set(spellings.map { ExactText($0) }).count == 8)
        #expect(Set(spellings.map { ExactText($0).hashValue }).count == 8)
    }
}
