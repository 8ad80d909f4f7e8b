import ChaparCore
import Testing

@testable import ChaparCommands

@Suite("Commands that ask a running gateway for an operator", .timeLimit(.minutes(1)))
struct OperatorCommandsTests {
    @Test("backends diagnose prints each step with its fix")
    func diagnosis() {
        let answer: JSONValue = [
            "steps": [
                ["name": "key", "verdict": "ok", "ok": true, "text": "it signs"],
                ["name": "clock", "verdict": "warning", "ok": true, "text": "5 s behind", "fix": "Set the clock."],
                [
                    "name": "reachability", "verdict": "failure", "ok": false, "text": "refused",
                    "fix": "Open port 443.",
                ],
            ]
        ]
        let lines = BackendsDiagnoseCommand.lines(answer)
        #expect(lines.count == 5, "\(lines)")
        #expect(lines[0].hasSuffix(" key: it signs") && lines[3].contains("FAILURE"), "\(lines)")
        #expect(lines[2] == "         fix: Set the clock." && lines[4] == "         fix: Open port 443.", "\(lines)")
    }

    @Test("keys own says all where a list is absent, and names what is there")
    func ownKey() {
        let small: JSONValue = [
            "name": "kiosk", "scopes": ["read", "send"], "apps": ["kiosk"], "backends": [],
            "not_after": "2030-03-17T17:46:40.000Z", "max_audience": 500, "queue_share": 0.25,
        ]
        #expect(
            KeysOwnCommand.lines(small) == [
                "name         kiosk", "scopes       read, send", "apps         kiosk", "backends     none",
                "not after    2030-03-17T17:46:40.000Z", "audiences    at most 500 devices",
                "queue        at most 25 %",
            ]
        )
        let whole: JSONValue = ["name": "", "scopes": ["admin"], "queue_share": 1]
        #expect(
            KeysOwnCommand.lines(whole) == [
                "name         none: the gateway has no keys", "scopes       admin", "apps         all",
                "backends     all", "not after    -", "audiences    any size", "queue        at most 100 %",
            ]
        )
        #expect(KeysUseCommand.percent(nil) == "-" && KeysUseCommand.percent(0.123) == "12 %")
    }
}
