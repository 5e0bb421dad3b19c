"""The operators' side of the server, put together: routes, metrics, health, and the listener's factory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred

from barbicel.config.settings import Config
from barbicel.gateway.admin.api.browsing import BrowsingApi
from barbicel.gateway.admin.api.groups import GroupsApi
from barbicel.gateway.admin.api.overview import OverviewApi
from barbicel.gateway.admin.api.positions import Positions
from barbicel.gateway.admin.api.publishing import PublishingApi
from barbicel.gateway.admin.api.queue_items import QueueItemsApi
from barbicel.gateway.admin.api.queues import QueuesApi
from barbicel.gateway.admin.api.settings import SettingsApi
from barbicel.gateway.admin.api.topics import TopicsApi
from barbicel.gateway.admin.console.pages import Console
from barbicel.gateway.admin.exchange import View, as_json
from barbicel.gateway.admin.health import Health
from barbicel.gateway.admin.metrics import Registry
from barbicel.gateway.admin.metrics_page import MetricsPage
from barbicel.gateway.admin.pulse import Pulse
from barbicel.gateway.admin.routes import Routes
from barbicel.gateway.admin.server import AdminServer
from barbicel.gateway.admin.server_metrics import register_server_metrics
from barbicel.gateway.admin.token import provide_token, token_path
from barbicel.gateway.broker.broker import Broker
from barbicel.gateway.kestrel.queues import Queues

if TYPE_CHECKING:
    from barbicel.gateway.admin.api.tier import TierApi

__all__ = ["AdminFrontEnd"]


class AdminFrontEnd:
    """Made before the reactor runs; other parts add to `routes` and `metrics` before `start`."""

    def __init__(self, broker: Broker, config: Config, queues: Queues | None) -> None:
        """Waits for the disk. `queues` are None if Kestrel's clients are not served. Raises BarbicelError."""
        self.routes = Routes()
        self.metrics = Registry()
        self._broker = broker
        self._config = config
        self._queues = queues
        self._pulse = Pulse(broker)
        self._health = Health(broker, self._pulse, config.admin_min_free_bytes)
        self._pulse.after_look = self._health.tell_changes
        self._positions = Positions(broker)
        register_server_metrics(self.metrics, broker, self._pulse, self._health, self._positions, queues)
        self._tier = self._make_tier()
        self._views = dict(self._make_views())
        self._console = Console(broker, self._views)
        self._add_routes()
        token = provide_token(broker.disk, token_path(config, broker.data_directory))
        self.server = AdminServer(config, broker.reactor, self.routes, token, self._console.show_refusal)

    def _add_routes(self) -> None:
        self.routes.add("GET", "/livez", self._health.live)
        self.routes.add("GET", "/readyz", self._health.ready)
        self.routes.add("GET", "/metrics", MetricsPage(self.metrics, self._broker.reactor).show)
        for pattern, view in self._views.items():
            self.routes.add("GET", f"/api/{pattern}", as_json(view))
        for pattern, change in self._changes():
            self.routes.add("POST", f"/api/{pattern}", as_json(change))
        for route in self._console.routes():
            self.routes.add(*route)

    def _make_tier(self) -> TierApi | None:
        if self._broker.tiering is None:
            return None
        # A server without a tier does not import it.
        from barbicel.gateway.admin.api.tier import TierApi
        from barbicel.gateway.admin.tier_metrics import register_tier_metrics

        register_tier_metrics(self.metrics, self._broker.tiering, self._broker.clock)
        return TierApi(self._broker, self._broker.tiering)

    def _make_views(self) -> Iterator[tuple[str, View]]:
        topics = TopicsApi(self._broker, self._pulse.history, self._tier)
        groups = GroupsApi(self._broker, self._positions, self._queues)
        yield "overview", OverviewApi(self._broker, self._pulse, self._health, self._queues).show
        yield "topics", topics.list_topics
        yield "topics/<name>", topics.show_topic
        yield "topics/<name>/messages", BrowsingApi(self._broker).list_messages
        yield "groups", groups.list_groups
        yield "groups/<name>", groups.show_group
        yield "settings", SettingsApi(self._config).list_settings
        if self._tier is not None:
            yield "tier", self._tier.show
        if self._queues is not None:
            queues, items = QueuesApi(self._queues, self._pulse.history), QueueItemsApi(self._queues)
            yield "queues", queues.list_queues
            yield "queues/<name>", queues.show_queue
            yield "queues/<name>/items", items.list_items
            yield "queues/<name>/open", items.list_open

    def _changes(self) -> Iterator[tuple[str, View]]:
        publishing = PublishingApi(self._broker, self._queues)
        yield "topics/<name>/messages", publishing.publish
        if self._tier is not None:
            yield "tier/flush", self._tier.flush
        if self._queues is not None:
            items = QueueItemsApi(self._queues)
            yield "queues/<name>/items", publishing.put
            yield "queues/<name>/open/requeue", items.requeue_all
            yield "queues/<name>/open/<offset>/requeue", items.requeue
            yield "queues/<name>/move", items.move

    def start(self) -> None:
        self._pulse.start()
        self._health.is_serving = True

    def drain(self) -> Deferred[None]:
        """Answer what is under way and send everybody away."""
        self._health.is_serving = False
        self._pulse.stop()
        return self.server.drain()
