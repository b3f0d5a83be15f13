"""Full text: the articles that posts link to, read from their pages, for followers who choose them."""

from typing import TYPE_CHECKING

from microsub.base.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from microsub.articles.cuts import goes_on
    from microsub.articles.extraction import ARTICLE_IN
    from microsub.articles.icons import IconFinder
    from microsub.articles.readable import chosen_part, main_part
    from microsub.articles.stage import (
        AT_ONCE,
        TROUBLE,
        TROUBLE_AT,
        ArticleStage,
        NoArticle,
        PageReader,
        Selectors,
    )
else:
    __getattr__ = lazy_exports(__name__, __file__)
