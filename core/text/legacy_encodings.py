"""The encoding of a text that is not UTF-8: as the text declares it, or as its letters show with a margin.

An encoding is accepted only if all bytes round-trip through it. Two encodings that decode a text alike count as one
until something is written: then both have to encode that alike, too.

The common letters of a language come from the messages of TypeScript and the names of CLDR, with everyday words: for
Chinese, Japanese (besides kana) and Korean single characters, for other languages pairs with a letter beyond ASCII, as
one first letter and all letters that follow it, with `_` for the edge of a word.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import Final

from msgspec import Struct

from core.patterns import compile_lazily
from core.text.well_formed import is_utf8

COMMON_CHARACTERS: Final = {
    "zh_Hans": (
        "的一是不了人我在有他这中大来上国个到说们为子和你地出道也时年得就那要下以生会自着去之过家学对可她里后小么"
        "心多天而能好都然没日于起还发成事只作当想看文无开手十用主行方又如前所本见经头面公同三已老从动两长知民样现"
        "分将外但身些与高意进把法此实回二理美点月明其种声全工己话儿者向情部正名定女问力机给等几很业最间新什打便位"
        "因重被走电四第门相次东政海口使教西再平真听世气信北少关并内加化由却代军产入先山五太水万市眼体别处总才场师"
        "书比住员九笑性通目华报立马命张活难神数件安表原车白应路期叫死常提感金何更反合放做系计或司利受光王果亲界及"
        "今京务制解各任至清物台象记边共风战干接它许八特觉望直服毛林题建南度统色字请交爱让认算论百吃义科怎元社术结"
        "六功指思非流每青管夫连远资队跟带花快条院变联言权往展该领传近留红治决周保达办运武半候七必城父强步完革深区"
        "即求品士转量空甚众技轻程告江语英基派满式李息写呢识极令黄德收脸钱党倒未持取设始版双历越史商千片容研像找友"
        "孩站广改议形委早房音火际则首单据导影失拿网香似斯专石若兵弟谁校读志飞观争究包组造落视济喜离虽坏兴切符串错"
        "误配置器库超端密码户注释默值返参函测试称描述启停止径缓存列夹邮箱登录册验证类型模具属块项标亚引须选尔拉克"
        "析添签修访仅索饰含构允尼编巴调换句译阿需素扩格纳号布初输括罗否态瓦除缺查断隐塞效静环卡序兰古删吉岛维卢考"
        "虑塔私源哥枚举检段支萨鲁根例匹禁载侧显埃境确抽局推复米赋批且示迭兼异奥姆郎顶吗伊终严洲映射获供欧群普坦键"
        "左装印摩牙苏乌范尝替波级循监洛围操诺希迪桑绑限层瑞朗箭束哈伯圣跳约勒泰威曼创托星消况图丁丹奇"
    ),
    "zh_Hant": (
        "的一是不了人我在有他這中大來上國個到說們為子和你地出道也時年得就那要下以生會自著去之過家學對可她裡後小麼"
        "心多天而能好都然沒日於起還發成事只作當想看文無開手十用主行方又如前所本見經頭面公同三已老從動兩長知民樣現"
        "分將外但身些與高意進把法此實回二理美點月明其種聲全工己話兒者向情部正名定女問力機給等幾很業最間新什打便位"
        "因重被走電四第門相次東政海口使教西再平真聽世氣信北少關並內加化由卻代軍產入先山五太水萬市眼體別處總才場師"
        "書比住員九笑性通目華報立馬命張活難神數件安表原車白應路期叫死常提感金何更反合放做系計或司利受光王果親界及"
        "今京務制解各任至清物台象記邊共風戰干接它許八特覺望直服毛林題建南度統色字請交愛讓認算論百吃義科怎元社術結"
        "六功指思非流每青管夫連遠資隊跟帶花快條院變聯言權往展該領傳近留紅治決周保達辦運武半候七必城父強步完革深區"
        "即求品士轉量空甚眾技輕程告江語英基派滿式李息寫呢識極令黃德收臉錢黨倒未持取設始版雙歷越史商千片容研像找友"
        "孩站廣改議形委早房音火際則首單據導影失拿網串錯誤伺器料庫線逾埠密碼註預值參函測試稱描述啟停止誌徑檔案夾箱"
        "登冊驗證臺灣型類匯模組屬宣須具亞項標選拉含考爾列克增包引存私析索斯構飾尼編專巴里譯簽章阿您態允換修呼需示"
        "納陳嗎置輸羅初瓦查號斷島括除蘭布效裝卡介隱確限格靜僅符維古移環素詞薩錄吉範缺群塔舉複塞且支哥盧籤域援埃透"
        "執擷載抽底魯境釋根旗推圍否慮米擴檢普郎擇層源監奧威覆供欄洛延印烏姆判陣餘左側歐摩波伊蘇鍵套句狀依嘗洲瑞曼"
        "伸訊序伯希幣弧段充塊朗諾披例遺箭讀繼哈聖牙尾顯托茲略逸備適迭副束舊圖丁莫鎊週星繫剩"
    ),
    "ja": (
        "日本語一人大年出会中上長見国事言分生時月前後自方間行話者学校水火木金土車名電気何今私彼女男子供手目足口体"
        "心新古高低多少食飲物買売店安全部屋家族友達仕来週毎朝昼夜半度回番号数文字列設定値変更開始終了接続待機端末"
        "画面表示入力処理関引戻返参照実結果成功失敗警告情報検索追加削除保存読込書通信送受認証暗利用登録覧管確初期"
        "既省略無効有必要可能対象件最小合計平均単価額商品注顧客住所氏備考概説明意使法作版権限東京都府県市区町村ー"
        "型指宣場的含式解持決換内化修性呼飾別代素非拡張同釈複構識不許在黙付空静割算当義装抽推島予正外挙動再以討互"
        "未致共常環位基論個側約取現種配相類厳図南諸重置演先句左反復属制記底格囲北境連発他造次条策曜試移適介降循形"
        "視西辺直状依奨領英派得際競地異尾述右態応規準監完組詳進係切各良央到符須補細継承護標済民験帰候音和韓知疑両"
        "元差頭密例比較身"
    ),
    "ko": (
        "가각간갈감갑값강같개객거건걸검것게겠겨격결경계고곡곤골공과관광교구국군권귀규그근글금급기긴길김까께끝나난"
        "날남내너네년노놓누눈는능니다단달담답당대더덕던데도독돈동되된될두드득든들등디따때또라락란람랍래량러런럼럽"
        "레려력련렬령로록론료루류르른를름리린림마막만많말맞매머먹면명모목못무문물미민및밀바박반받발방배버번벌범법"
        "변별병보복본볼봉부북분불브비빈사산살삼상새색생서석선설성세셔소속손송수순술숨스습승시식신실심싶써쓰아악안"
        "않알았암압앞액야약양어언얼업없에여역연열였영예오온올와완왔외요용우운울움원월위유육으은을음응의이익인일임"
        "입있자작잔잘장재저적전절점접정제조족존졸종좋좌주준줄중즉증지직진질집짜째차찬참찾창채책처천첫청체초총최추"
        "축출충취치친침카코크키타탁태택터테토통투트특파판패팅퍼페편평포표품프피필하학한할함합항해했행향허험현형호"
        "혹화확환활황회횟획효후훈히듈져클션메옵낸빗었됩멤컴젝므럴티플턴덱셜랑블렉며쪽쿠빌닙베케괄앰폴탄닌핑웨슬왼"
        "텍워숫컨뒤딩칭캐랜콜읽냅링묶앙즈둘캡벨엘팔괴템셨튜싱탈쉼램돌뜁퀀컬몰릭릿룹팩슈엔솔큰칸뉴푸삭덮략견츠렇섬"
        "헤룬콩백낼맵엄콘헨칠덴핀룩셈얀몽잠칼튀멘듭쓸꾸깊커쇄흐덜샤롬콰몬"
    ),
}
COMMON_PAIRS: Final = {
    "fr": (
        "_àéêîœ açéîï bé cèéêô dèé eçï fèé gé hèéîô ièé jà ké lèé mèéê nçèéœ oïùû pèé rçèéêîô sèéû tèéô uèéëï vèé"
        " wé xé yé zé à_ ål çaou ècdglmnqrstv é_abcdefgijlmnopqrstuvwzé êmt ë_ î_lnt ï_bdlmnqrtvw ôlmt ù_ ûrt œu"
    ),
    "de": (
        "_äåöü aßçï bäü cóô däü eßäö fäöü gäü häéöü ißäü jü köüʼ läíöü mäåéöüā näíöü oß päü räéíöü sãäü täü uß wä"
        "öü yú zäö ß_eilrtu ão äcdfghilmnpqrstuß ål ça é_ilu í_nv ïr ór ôt öcefghilnrstß úu übcdfghklnprst āo ʼw"
    ),
    "es": (
        "_áéíú aéíñ bóú céíó dáéíó eíñ fáí góúü héú iáéñó káé láéíó máéíóú náéíóú oí páú ráéíóú sáéíó táéíóú uéíñ"
        "ó váéí yáú á_bcdfgilmnrstux é_ilnrstx í_acdefglmnorstvz ñao ó_dglmnrst ú_ablmnrs üe"
    ),
    "it": (
        "_åèø açʻ có dì fæ héʼ iàù kʼ lìíó måé néí pü ràíòù sãì tà uò võ zł à_ ão ål ær ça è_ é_lt ì_ í_nv ò_ ónr"
        " õr øe ù_ ük ło ʻa ʼiw"
    ),
    "pt": (
        "_àáéíú açí báéó cêíó dáêíó eç fá há iáãç já láêí máãéêíó náâãçéêíóú oç páçóú ráâãçéêíóõ sáãéíóõ táâãéêíó"
        " uáçêí váíô à_ á_bfglrstuvx âmn ão çaãõ é_glmrst ê_mns íacdgmnrstv ó_dlprst ô_n õe úblmns"
    ),
    "sv": (
        "_äåö açéöʻ có dö eäñö fäåö gãå häåéö jä käåéöʼ läåéíóö mäåé näíóöü oç påü räåéíö sãäåö täö uáö väõ yé ái"
        " ã_o äglmnrstv å_dgklnr ça é_ilsu í_nv ño ó_nr õr ö_adgilnprs üks ʻa ʼw"
    ),
    "da": (
        "_åæø açʻ bå dø eæø fåæø gåæ hæéø jø kæöøʼ læóø måæé nåæøü påæ råæéíø sãåø tø uø væ ão å_bdlr æ_iklnrst ç"
        "a é_lu ín ón öl ø_deijlnrsv üs ʻa ʼw"
    ),
    "nb": (
        "_åø açʻ bå có dø eæ fåæø gåæ héø iø jø kø lóø måé nåçøüʼ på råæéíø sãåø tæø uø væ ão å_dklpr ælr ça é_lu"
        " ín ónr ø_dlnrsvy üs ʻa ʼk"
    ),
    "fi": (
        "_äñš açš có dž eäñʼ fä häé iäöšʼ jä käöšʼ läíó mäåéóš näîü päü qʼ räéíö sãä täöúš uš väõ yéö zł ão ä_afh"
        "ijklmnprstvyä ål ça é_lnu ínv î_ ñeo ócnr õr ö_klnstä ú_ üks ło š_aeikmnotu ž_aipu ʼ_eiw"
    ),
    "is": (
        "_áíóúþ aíðó bíóú díóú eó fíðö gíóú háí ið jíóú kíóú láíóúý máíóöú níóúý pæíóú ræíðóöú síóú táéíóöú uð væ"
        "í xí á_glnrs ænð ék í_abdegklmnprstv ð_aiuv ó_abklmnprstv öfln ú_abdegklmnprstv ýrs þrý"
    ),
    "pl": (
        "_łśźż aćłńśźż bęł cą dóąęłż ećńśźż góąęł iąćęłńśż jąęś kół ląę nąę ołńśż pó róąę sóął tóąę ułńż wąęł yćł"
        "śż ząęł óbdlrwł ą_cdgptzż ć_ ę_bcdptzś ł_aeknouyóąćę ń_cs śclnrwć źrćń ż_adeiklnosyóą"
    ),
    "cs": (
        "_účřšž ačž býě cí dáě ečž iř jíš káéýů láíš máíěů náéíýěš očřž pěřů ráéýšů sáí táíěřů učž váéíýšů yž záí"
        "š á_bdlmnrstvzř é_hms í_cdhklmnstv ód úp ý_cmrst čeiklntí ě_jlnt ň_ řaeií šeití ů_ž ž_aeintáí"
    ),
    "sk": (
        "_áíúčľšž ačš báč cú dáéóôčž eáľňšž góč hč ióčš júč káéóýč láíč máéôč náéíóýčšž oľ pí ráéíóč súý táíóýč u"
        "ášž váäéý yť záíš á_dlmnprtz ät é_nrz í_lnrv ónpr ôlž úbnzč ý_cr čaeintí ľ_u ňa š_aipstv ť_ žaeinsí"
    ),
    "hu": (
        "_áéíóöúő aó báé dáéíóő eá fáő gáéóö háé iáó jáú káéíóö láéíó máéí náéó páé ráéíóöú sáéíóüő táéíóöúüű uá "
        "váé záéíóöü ádgjklmnprstvz é_dgklmnprstz í_bnrtv ó_cilnps öbgklrtz újlnpz ülr ő_st űz"
    ),
    "ro": (
        "_åîșț açșț bă cóôă dă eț fâă gâă héăʼ ișț kâöʼ líóăț mâåéă nüășț oșț păț râéíășț sâãă tă uăș vă ză â_mnr"
        "z ão ål ça é_lu ínv în ónr ôt öl üs ă_grtuț ș_ikmtuă țaeiuă ʼiw"
    ),
    "hr": (
        "_åćčšž açćčđš bč dž ećčš hé ićčđš jčš kʼ lšž må nš očšž pü réčšž učšž ål ça élu ük ć_ain č_aeijknouv đai"
        " š_aeiklmnprtuvć žaeinu ʼw"
    ),
    "tr": (
        "_çöüğş açğş böüı cüı döüı eçğş fı göüı içğş kçöüı lüı müı nüı oğş pçı rçüış sçöüı tçöüı uçğş yöüı züı ç_"
        "abeiloçöüı öklnrsvzğ ü_dklmnrsyzçğş ğ_aeilruüı ı_cdfklmnrstyzğş ş_aeiklmstuvçüı"
    ),
    "lt": (
        "_čėįšųž ačšūž bčėūų cūų dėūųž ečšž fų gėūų hų ičšų jėūų kėšūų lėųž mėšūų nüčėšų očš pčėūų rėšūųž sąėų tė"
        "ūų učšž vėų yčš zų üs ąjs čaeiopuėų ė_djlnrst įv š_aeikmnortuvyų ūgnrstzč ų_ ž_aeimnosuyė"
    ),
    "lv": (
        "_āčēīķņš ačņš bā dāīž eāģķļš gāēļš hā iāčņš jū kāš lāī māēīū nāčēī pāīū rāēīšū sāī tāēī uāēš vāē zāī ā_b"
        "cdfklmnrstvzļņ čaeiou ēlnrtzģķņ ģiu ī_bcdlnrtvzņ ķeiī ļau ņauš š_adeiouv ūdlnprt žaiuāī"
    ),
    "et": (
        "_äöüšž açüš bü dõž eä fä gõū häéõ iš jäõüā kõöüš läõöüž mäåéõš näüš ož päõü réíöš sãöü täõüš uš väõ yé ã"
        "o ä_ehilnrstä ål ça é_lu ín õ_bdghiklmruvzõš ö_lnö ü_adfhklmnprstüš āl šaeikmnotuv ūn žabeikopu"
    ),
    "ru": (
        "_абвгдезиклмнопрстуфчэя а_бвежзйклмнпрстхчщя балоруъы в_аеилнорсуы гоу даеилноу е_вгдейклмнорстш жеин з_"
        "авдмнору и_бвдезийклмнпрстфчюя й_лст к_аилорстц л_аежиоьюя м_аеиопыя н_адеикносты о_бвгдежзйклмнпрст п_а"
        "еиору р_аежиотуы с_авеиклопстыья т_авеинорсуь у_деклмнрстю фаиу х_о ци чаеи шеи щеи ъя ы_ейлмтх ь_зкнс э"
        "клт ю_чщ я_ве"
    ),
    "uk": (
        "_абвгдезклмнопрстуфхцчшщяєії а_бвгдзйклмнпрстуфхчї баелорсуі в_адеинорсі г_авеоруі д_аежиносі е_вдзйклмн"
        "рстц жаи заеьі и_йклнрстц й_лс к_авеиорсуі л_аеикоуьі м_абеиосуі н_агдеикностьяі о_авгдклмнпрст паеоі р_"
        "абвгдеикмостуі с_аеилотуьі т_аеиорсуі у_абвгдзкмнрт фаруі х_аоі цеь ч_аен що ь_кнос я_кн є_в і_авдйклмнр"
        "стчя ї_хї"
    ),
    "bg": (
        "_абвгдезийклмнопрстуфхцчшюя а_бвгдзийклмнопрстуфхш баеилорсу в_аеиорс г_авеилору д_аежинос е_бвгдзйклмнп"
        "рстшя жаин заеит и_абвгдезйклмнопрстцчя й_лнс к_авеиорсу л_агдеиносту м_абвеиос н_агдеикосту о_абвгдзйкл"
        "мнпрстч паеиору р_абвдеиклмносту с_авеиклортуъ т_авеиорсуя у_абгдезклмнпрст фаир хаио цаеи чаеин шк ър ю"
        "ж я_н"
    ),
    "el": (
        "_άαβγδεζθικλμνοπρστφχό ά_γικλμνορστ έαινρσ ή_ςσ ί_ακλνορτ α_βγδζικλμνπρςστυφχϊ βίαειορό γαγεικορ δάίαεηι"
        "ο ε_ίζικλμνρςστυ ζαι η_μνς θύ ι_άέαβγεκλμνορστ κ_άέήίαειορωό λ_άίαειλμο μ_άέαβειοπό ν_άέήίαγδεηιοτωό ο_β"
        "γικλμνρςσυύ π_άέίαειορτ ρ_άέήίαγεικμοτχωό ς_ σάίαεικλοτφ τ_άίαεζηιορσ υ_άαγικλνπρτ φάιρ χαερ ωδνσ ϊκ ό_κ"
        "νρςτ ύ_νρ"
    ),
    "he": (
        "_אבגדהוזחטיכלמנסעפצקרשת א_בגדהוזטילםמןנספקרשת ב_אהוילמנץקרת ג_אבהוילנר ד_הוינרש ה_אבוילמצר ו_אבגדהוזטילם"
        "מןנספקרת ז_אהוימר ח_דוי ט_אהוילמןנסר י_אבגדהוזטיכלםמןנספצקרשת כוזלת ל_אבגדהוטימנסקר ם_ מאבהוזילנעקר ן_ נ"
        "אגדהוזטימסצקר ס_אהוטילמנפקר עולםרת פאהוזטילנסרת ץ_ צ_ויפר ק_אהוטילמנסר ר_אבגדהוזחטיכלמנספק ש_גויל ת_ויר"
    ),
    "ar": (
        "_أإابتجخدرزسشعغفقكلمنهوي ء_ أ_رسفلمنو إسلني ئي ا_ءئبتثجدرزسغفكلمنوي ب_اترلنوي ة_ ت_احخرسشغوي ج_ابدرزمنوي"
        " حد خدط د_اةرموي ذاهي ر_ابةتجدسقكمنوي ز_اروي س_ابترطكلمنوي شارموي صي طأاي عارل غ_اةروي ف_ارنوي ق_دي ك_ات"
        "رسمنوي ل_أإابتجخدذرسشصعغفقكلمنهوىي م_ابةترسعلنوي ن_اةتجدزسغكموي ه_اذنوي و_ابتجدرزسغفكلمني ى_ ي_ابةتجدرزس"
        "شغفقكلمنهوي"
    ),
}
# Subsets first: of two encodings that decode a text alike, the first is the reported one.
_CODECS: Final = {
    "gbk": ("zh_Hans",),
    "gb18030": ("zh_Hans",),
    "big5": ("zh_Hant",),
    "cp950": ("zh_Hant",),
    "shift_jis": ("ja",),
    "cp932": ("ja",),
    "euc_jp": ("ja",),
    "euc_kr": ("ko",),
    "cp949": ("ko",),
    "latin-1": ("fr", "de", "es", "it", "pt", "sv", "da", "nb", "fi", "is"),
    "cp1252": ("fr", "de", "es", "it", "pt", "sv", "da", "nb", "fi", "is"),
    "cp1250": ("pl", "cs", "sk", "hu", "ro", "hr"),
    "iso8859-2": ("pl", "cs", "sk", "hu", "ro", "hr"),
    "cp1251": ("ru", "uk", "bg"),
    "koi8-r": ("ru",),
    "koi8-u": ("uk",),
    "iso8859-5": ("ru", "bg"),
    "cp866": ("ru", "bg"),
    "cp1253": ("el",),
    "iso8859-7": ("el",),
    "cp1254": ("tr",),
    "cp1255": ("he",),
    "iso8859-8": ("he",),
    "cp1256": ("ar",),
    "iso8859-6": ("ar",),
    "cp1257": ("lt", "lv", "et"),
}
_NAMES: Final = {
    "gbk": "GBK",
    "big5": "Big5",
    "shift_jis": "Shift_JIS",
    "euc_jp": "EUC-JP",
    "euc_kr": "EUC-KR",
    "latin-1": "Latin-1",
    "iso8859-1": "Latin-1",
}
_SAMPLE: Final = 32_768  # bytes of non-ASCII lines that are decoded in every encoding
_MAX_BYTES: Final = 4_000_000  # bytes of a text whose encoding is detected
_MIN_PAIRS: Final = {"latin-1": 2, "cp1252": 2, "cp1250": 4, "iso8859-2": 4, "cp1254": 4}  # pairs of letters
_DEFAULT_MIN_PAIRS: Final = 6
_MIN_CHARACTERS: Final = 2
_MIN_SHARE: Final = 0.7  # share of common letters
_MARGIN: Final = 0.3
_DECLARED: Final = compile_lazily(
    rb"""coding[:=]\s*["']?([-\w.]+)|<\?xml[^>]*\bencoding\s*=\s*["']([-\w.]+)|<meta[^>]*\bcharset\s*=\s*["']?([-\w.]+)"""
    rb"""|@charset\s+["']([-\w.]+)|Content-Type:[^\n]*\bcharset=([-\w.]+)""",
    re.IGNORECASE,
)
# Quotes, dashes and the ellipsis of the Windows code pages in typical contexts, and the subset that is no letter of
# another encoding.
_TYPOGRAPHY: Final = compile_lazily(
    rb"(?<![^\W_])[\x91\x93](?=\S)|(?<=[!-~\x85\x92\x94])[\x92\x94](?![^\W_])|(?<=[^\W_])\x92(?=[^\W_])|\x85(?![^\W_])"
    rb"|(?<=\s)[\x96\x97](?=\s)|(?<=[\w\x92\x94.])\x97(?=[\w\x91\x93])|(?<=\d)\x96(?=\d)"
)
_SURE_TYPOGRAPHY: Final = compile_lazily(
    rb"[A-Za-z]\x92(?:s|t|d|m|re|ve|ll)\b|(?<![^\W_])\x93\w[^\x80-\xff\n]*[!-~]\x94(?![^\W_])|\s[\x96\x97]\s"
)
_WINDOWS: Final = ("cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp1258")
_DECLARABLE: Final = compile_lazily(r"(iso8859|cp|koi8|gb|big5|euc|shift|mac|johab|tis|hp)")
_ASCII: Final = "\t\n\r" + "".join(map(chr, range(0x20, 0x7F)))
_DECLARING: Final = 1024  # bytes at the start that may declare an encoding
_BYTE: Final = compile_lazily("[\udc80-\udcff]")
_KANA: Final = compile_lazily("[ぁ-んァ-ヶ]")
_PUNCTUATION: Final = frozenset("，。、：；（）「」『』！？～…—《》【】・ー　“”‘’")
_QUOTES: Final = frozenset("«»„“”‘’–—…€£§°·•¿¡©®±×÷\xa0")
_NO_TEXT: Final = compile_lazily("[\x80-\x9f\ue000-\uf8ff\ufffd]")  # controls, private use, replacement character


class TextEncoding(Struct, frozen=True):
    """`codec`: Python's name. `twins`: other encodings that decode the text to the same result."""

    codec: str
    twins: tuple[str, ...] = ()


def name_encoding(codec: str) -> str:
    """Return the common name of an encoding."""
    return _NAMES.get(codec, codec)


def find_encoding(data: bytes, declared_encoding: str = "") -> TextEncoding | None:
    """Return the encoding of a text that is not UTF-8; None: it is UTF-8, or unknown. `declared_encoding`: the
    project's setting for the file."""
    if data.isascii() or len(data) > _MAX_BYTES:
        return None
    return _find_legacy_encoding(data, declared_encoding) if _is_not_utf8(data) else None


def is_in_unknown_encoding(data: bytes) -> bool:
    """Return True for a text that is neither UTF-8 nor in a detectable encoding."""
    return not data.isascii() and _is_not_utf8(data) and find_encoding(data) is None


def _is_not_utf8(data: bytes) -> bool:
    """Return True if most of a text's non-ASCII bytes are invalid UTF-8; with fewer it is damaged UTF-8."""
    if data.startswith(codecs.BOM_UTF8) or is_utf8(data):
        return False
    text = data.decode("utf-8", "surrogateescape")
    strange = len(_BYTE.findall(text))
    return strange * 2 > sum(not sign.isascii() for sign in text)


@lru_cache(maxsize=8)
def _find_legacy_encoding(data: bytes, declared_encoding: str) -> TextEncoding | None:
    match = _DECLARED.search(data[:_DECLARING])
    for name in (*(part.decode() for part in (match.groups() if match else ()) if part), declared_encoding):
        if name and (codec := _find_codec(name)) and round_trips(data, codec):
            return TextEncoding(codec)
    sample = b"\n".join(_take_sample(data))
    scores = sorted(((_score(sample, codec), codec) for codec in _CODECS), key=lambda pair: -pair[0])
    scores = [(score, codec) for score, codec in scores if score > 0 and round_trips(data, codec)]
    if not scores or scores[0][0] < _MIN_SHARE:
        return TextEncoding(_WINDOWS[0], _WINDOWS[1:]) if _is_typography(data) else None
    if not _is_enough(sample.decode(scores[0][1], "replace"), scores[0][1]):
        return None
    text = data.decode(scores[0][1])
    rivals = [score for score, codec in scores if data.decode(codec) != text]
    if rivals and max(rivals) > scores[0][0] - _MARGIN:
        return None
    near_codecs = {codec for score, codec in scores if score > scores[0][0] - _MARGIN}
    equivalent_codecs = [codec for codec in _CODECS if codec in near_codecs and data.decode(codec) == text]
    return TextEncoding(equivalent_codecs[0], tuple(equivalent_codecs[1:]))


def _is_typography(data: bytes) -> bool:
    """Return True if the only non-ASCII bytes are quotes, dashes and ellipses of the Windows code pages."""
    rest = _TYPOGRAPHY.sub(b"", data)
    return rest.isascii() and _SURE_TYPOGRAPHY.search(data) is not None


def _find_codec(name: str) -> str:
    """Return Python's name of an encoding that extends ASCII; "" if it is none."""
    try:
        codec = codecs.lookup(name).name
        return codec if _DECLARABLE.match(codec) and _ASCII.encode().decode(codec) == _ASCII else ""
    except (LookupError, UnicodeError):
        return ""


def round_trips(data: bytes, codec: str) -> bool:
    """Return True if an encoding decodes all of a text as text, and encodes it to the same bytes."""
    try:
        text = data.decode(codec)
        return text.encode(codec) == data and _NO_TEXT.search(text) is None
    except UnicodeError:
        return False


def _take_sample(data: bytes) -> Iterator[bytes]:
    remaining = _SAMPLE
    for line in data.split(b"\n"):
        if remaining > 0 and not line.isascii():
            yield line[:_SAMPLE]
            remaining -= len(line)


def _is_enough(text: str, codec: str) -> bool:
    """Return True if a text has enough letters to judge this encoding."""
    if _CODECS[codec][0] in COMMON_CHARACTERS:
        return sum(not sign.isascii() for sign in text) >= _MIN_CHARACTERS
    return len(_list_pairs(text)) >= _MIN_PAIRS.get(codec, _DEFAULT_MIN_PAIRS)


def _score(sample: bytes, codec: str) -> float:
    """Return the share of common letters, from 0 to 1, in the best fitting language of an encoding."""
    text = sample.decode(codec, "replace")
    languages = _CODECS[codec]
    if languages[0] in COMMON_CHARACTERS:
        signs = [sign for sign in text if not sign.isascii()]
        common = _load_characters(languages[0])
        if languages == ("ja",) and _KANA.search(text) is None:
            return 0.0
        return sum(sign in common for sign in signs) / max(len(signs), 1)
    pairs = _list_pairs(text)
    return max(sum(_is_common(pair, language) for pair in pairs) for language in languages) / max(len(pairs), 1)


def _is_common(pair: str, language: str) -> bool:
    """Return True for a pair that is common in a language. A capital is valid at the start of a word only."""
    return not (pair[1].isupper() and pair[0] != "_") and pair.lower() in _load_pairs(language)


def _list_pairs(text: str) -> Sequence[str]:
    """List the pairs of letters with one beyond ASCII; other characters are edges of words, unless they never occur
    amid letters."""
    padded_text = "".join(
        sign if sign.isalpha() or (not sign.isascii() and sign not in _QUOTES) else "_" for sign in f" {text} "
    )
    return [
        padded_text[index : index + 2]
        for index in range(len(padded_text) - 1)
        if not padded_text[index : index + 2].isascii()
    ]


@cache
def _load_characters(language: str) -> frozenset[str]:
    kana = map(chr, (*range(0x3041, 0x3097), *range(0x30A1, 0x30FB))) if language == "ja" else ()
    return frozenset((*COMMON_CHARACTERS[language], *kana)) | _PUNCTUATION


@cache
def _load_pairs(language: str) -> frozenset[str]:
    groups = COMMON_PAIRS[language].split(" ")
    return frozenset(group[0] + second for group in groups for second in group[1:])
