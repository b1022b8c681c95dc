"""The client's parts for a broker in the same process (`flotilla.testing`): a thread with a loop, and shared clocks."""

from flotilla.client._core.broker_clock import CLOCKS_HERE as CLOCKS_HERE
from flotilla.client._core.loop_thread import LoopThread as LoopThread
