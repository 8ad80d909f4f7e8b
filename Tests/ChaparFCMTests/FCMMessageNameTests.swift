import Testing

@testable import ChaparFCM

@Suite("The id in a success of FCM", .timeLimit(.minutes(1)))
struct FCMMessageNameTests {
    @Test(
        "It is the last part of the name, however the object is written",
        arguments: [
            (#"{"name":"projects/p/messages/0:1767225600123456%abc"}"#, "0:1767225600123456%abc"),
            ("{\n  \"name\": \"projects/p/messages/7\"\n}\n", "7"),
            (#"{ "name" : "projects/p/messages/a\u002Fb" }"#, "b"),
            (#"{"more":[1],"name":"projects/p/messages/9"}"#, "9"),
            (#"{"name":"projects/p/messages/8","more":{}}"#, "8"),
            (#"{"name":"/é"}"#, "é"),
        ]
    )
    func found(body: String, id: String) { #expect(FCMMessageName.id(in: Array(body.utf8)) == id) }

    @Test(
        "Any other answer has no id",
        arguments: [
            "", "{}", "{", #"{"name":"projects/p/messages/"}"#, #"{"name":"7"}"#, #"{"name":7}"#, #"{"name":"a/b"#,
            #"{"name":"a/b"} x"#, "<html>",
        ]
    )
    func missing(body: String) { #expect(FCMMessageName.id(in: Array(body.utf8)) == nil) }
}
