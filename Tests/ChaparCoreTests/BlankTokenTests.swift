import ChaparCore
import Testing

@Suite("A blank device token")
struct BlankTokenTests {
    @Test("is the token of no service, whatever backends there are", arguments: ["", " ", "\u{A0}\u{3000}"])
    func refused(text: String) {
        let backends: [any PushBackend] = []
        #expect(throws: InvalidToken.self) { try backends.checked(DeviceToken(text, service: .androidHuawei)) }
    }

    @Test("is one of blanks alone")
    func taken() throws {
        let backends: [any PushBackend] = []
        #expect(try backends.checked(DeviceToken("a b", service: .androidHuawei)).value == "a b")
    }
}
