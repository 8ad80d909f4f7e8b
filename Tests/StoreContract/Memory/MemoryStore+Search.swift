package import ChaparCore
package import ChaparQueue

/// The search of the model: it reads all deliveries and asks each whether it has the key.
extension MemoryStore: SearchStore {
    package func search(
        _ look: SearchLook,
        where isWanted: @escaping @Sendable (FoundDelivery) -> Bool
    ) async throws(StoreError) -> SearchPage {
        let time = time
        return try await call { tables in .success(tables.search(look, time, isWanted)) }
    }

    package func indexedFrom() async throws(StoreError) -> Int64 { 0 }

    package func mark(_ marks: [DeadMark]) async throws(StoreError) {
        try await call { tables in
            for mark in marks where tables.ended[mark.delivery]?.state.isDead ?? false {
                var known = tables.handled[mark.delivery] ?? (false, false)
                known.isAcknowledged = mark.isAcknowledged ?? known.isAcknowledged
                known.isResent = mark.isResent ?? known.isResent
                tables.handled[mark.delivery] = known
            }
            return .success(())
        }
    }
}

extension MemoryTables {
    fileprivate func search(
        _ look: SearchLook,
        _ time: any TimeSource,
        _ isWanted: (FoundDelivery) -> Bool
    ) -> SearchPage {
        var page = SearchPage()
        var count = 0
        var below = look.before
        for new in notifications.values.sorted(by: { $0.id > $1.id }) {
            for delivery in deliveries(of: new.id, after: nil, limit: .max, time).reversed() {
                guard delivery.id < below, delivery.id >= look.from, isCandidate(delivery, new, look.source) else {
                    continue
                }
                count += 1
                var found = FoundDelivery(
                    delivery,
                    of: new.id,
                    record: new.record,
                    caller: new.caller,
                    collapseID: new.collapseID
                )
                if let marks = handled[delivery.id] { (found.isAcknowledged, found.isResent) = marks }
                below = delivery.id
                if isWanted(found) {
                    page.found.append(found)
                    if look.onePerNotification { below = new.id.rawValue }
                }
                guard page.found.count < look.limit, count < look.rows else {
                    page.next = below > look.from ? below : nil
                    return page
                }
            }
        }
        return page
    }

    private func isCandidate(_ delivery: StoredDelivery, _ new: NewNotification, _ source: SearchLook.Source) -> Bool {
        switch source {
        case .all: return true
        case .dead: return delivery.state.isDead
        case .keys(let keys):
            var isFound = false
            new.forEachSearchKey { key, number in
                isFound = isFound || keys.contains(key) && (key.isOfNotification || number == delivery.id)
            }
            return isFound
        }
    }
}
