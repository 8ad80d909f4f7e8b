internal import Foundation
package import ChaparDelivery
internal import ChaparAPI
internal import ChaparServer
package import ChaparCore
package import ChaparComposition

/// A request in the API's form, checked like a request over HTTP, that is sent at once and without a store.
///
/// `chapar send` uses it when it sends without a gateway, so that the same message has the same effect with a gateway
/// and without.
package struct DirectRequest: Sendable {
    /// The content.
    package let notification: PushNotification
    /// The recipients, each with the backends that its message goes through.
    package let recipients: [(recipient: Recipient, plan: DeliveryPlan)]
    /// The fields that platforms would drop or change, and recipients that are named twice.
    package let warnings: [Finding]

    /// The mistakes of a request.
    package struct Refused: Error, Sendable {
        /// The wrong fields, by their JSON pointer.
        package let issues: [Finding]
    }

    /// Reads and checks a request.
    ///
    /// Throws every mistake at once. A send time is a mistake: without a store nothing can wait.
    package init(reading body: [UInt8], snapshot: GatewaySnapshot, knownKinds: [String]) throws(Refused) {
        let settings = APISnapshot(snapshot, knownKinds: knownKinds, uses: KeyUses(), at: .distantPast)
        var draft = NotificationDraft()
        var issues = RequestIssues()
        do throws(JSONSyntaxError) {
            try NotificationReader(settings).read(body, into: &draft, &issues)
        } catch {
            throw Refused(issues: [Finding(pointer: "#", code: "not_json", detail: error.description)])
        }
        draft.resolveApp(AppChoice(snapshot: snapshot, isWhole: true), &issues)
        if draft.notification.sendAt != nil {
            issues.add("#/options/send_at", "needs_gateway", "Only a gateway can send later; give its address.")
        }
        let assignment = PlanAssignment(draft, snapshot.routing(of: draft.appName), .everybody, &issues)
        var warnings: [Finding] = []
        if draft.isContentSound, let form = draft.recipients.first?.form {
            warnings =
                PayloadInspection(
                    draft.notification,
                    for: form,
                    plans: assignment.plans,
                    gateway: snapshot,
                    issues: &issues
                ).warnings
        }
        guard issues.isEmpty, !assignment.plans.isEmpty else {
            throw Refused(
                issues: issues.list.map { Finding(pointer: $0.pointer, code: $0.code, detail: $0.detail) }
            )
        }
        notification = draft.notification
        let app = draft.appName
        recipients = (assignment.recipients ?? draft.recipients).enumerated().map { position, recipient in
            let plan = assignment.planOf.isEmpty ? 0 : Int(assignment.planOf[position])
            return (app.named(recipient), assignment.plans[plan])
        }
        self.warnings = draft.warnings + warnings
    }
}
